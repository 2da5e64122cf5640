"""What readers share: a text, how to read, the tally of what was dropped, how to complain."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.errors import UserError

Unit = Literal["line", "paragraph", "file"]

SKIP = "Set data.skip_bad_rows = true to drop such rows (they are counted)"


class Text(NamedTuple):
    """One document; documents of one `group` always stay in the same part of a split."""

    text: str
    group: str | None = None


class Reading(NamedTuple):
    """How files are to be read: the part of the `[data]` table that concerns readers."""

    column: str = "text"
    unit: Unit = "line"
    skip_bad_rows: bool = False


@dataclass
class Dropped:
    """What was left out, by file; reading a file again starts its counts anew."""

    empty: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)

    def start(self, file: str) -> None:
        self.empty[file] = self.bad[file] = 0

    def as_dict(self) -> dict[str, Any]:
        """`{"empty": 3, "bad": 1, "files": {"reviews.csv": {"empty": 3, "bad": 1}}}`"""
        files = {
            file: {"empty": self.empty[file], "bad": self.bad[file]}
            for file in self.empty
            if self.empty[file] or self.bad[file]
        }
        return {"empty": sum(self.empty.values()), "bad": sum(self.bad.values()), "files": files}

    def __str__(self) -> str:
        """One line for a person; nothing where nothing was dropped."""
        counts = {"empty": sum(self.empty.values()), "bad": sum(self.bad.values())}
        return ", ".join(
            f"{count:,} {sort} row{'s' * (count != 1)} dropped"
            for sort, count in counts.items()
            if count
        )


def complain(path: Path, what: str, *, at: str = "", mend: str = "") -> UserError:
    return UserError(what, topic="data", where=f"{path}, {at}" if at else str(path), mend=mend)


def find_column(path: Path, names: list[str], column: str) -> int:
    if names.count(column) > 1:
        raise complain(
            path, f"{names.count(column)} columns are called {column!r}", mend="Rename all but one."
        )
    if column in names:
        return names.index(column)
    raise no_such(path, "column", names, column, at="")


def no_such(path: Path, sort: str, names: list[str], column: str, *, at: str) -> UserError:
    shown = [name if len(name) <= 40 else name[:39] + "…" for name in names[:12]]
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    close = get_close_matches(column, names, n=1, cutoff=0.6)
    guess = f" — did you mean {close[0]!r}?" if close else ""
    header = ", or add a header line if the file has none" if sort == "column" else ""
    return complain(
        path,
        f"no {sort} {column!r}; there {'is' if len(names) == 1 else 'are'} "
        f"{', '.join(map(repr, shown)) or 'none'}{more}{guess}",
        at=at,
        mend=f"Set data.text to the {sort} that holds the text{header}.",
    )
