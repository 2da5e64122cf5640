"""The items of one variant as columns, with the location of each row in its file.

Every format is read into this shape; what follows knows no format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.core.errors import UserError, closest

MAX_COLUMNS_LISTED = 12
LM_EVAL = "lm-evaluation-harness samples"
"The format whose values of some metrics are not yet the score of an item."


@dataclass(frozen=True)
class ItemTable:
    """Columns of equal length; a value that a row does not have is None."""

    name: str
    "Of the variant."
    columns: Mapping[str, Sequence[Any]]
    at: Sequence[str]
    "Where each row is: `line 3`."
    source: str = ""
    "The file, as the user named it; empty for values given in Python."
    kind: str = "rows"
    "The format, in words."
    task: str = ""
    "What was evaluated, if the file says so."
    scores: tuple[str, ...] = ()
    "The columns that are scores, if the file says so."
    repeats: str = ""
    "The column that tells repeated answers to one item apart, which are averaged."

    @classmethod
    def of_rows(
        cls, rows: Iterable[tuple[str, Mapping[str, Any]]], *, name: str, source: str = ""
    ) -> ItemTable:
        """Columns of (location, values): the keys of all rows, in the order in which they occur."""
        columns: dict[str, list[Any]] = {}
        at: list[str] = []
        for location, values in rows:
            for key, value in values.items():
                if key not in columns:
                    columns[key] = [None] * len(at)
                columns[key].append(value)
            at.append(location)
            for values_so_far in columns.values():
                if len(values_so_far) < len(at):
                    values_so_far.append(None)
        return cls(name, columns, at, source)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def title(self) -> str:
        """How errors name the table."""
        return self.source or self.name

    def select(self, kept: Sequence[int], **changes: Any) -> ItemTable:
        """The rows at these indices, in this order."""
        columns = {name: [values[row] for row in kept] for name, values in self.columns.items()}
        return replace(self, columns=columns, at=[self.at[row] for row in kept], **changes)

    def column(self, name: str, *, option: str) -> Sequence[Any]:
        """The values of a column; `option` is what names it."""
        if name in self.columns:
            return self.columns[name]
        raise self.no_column(name, option=option)

    def no_column(self, name: str, *, option: str, what: str = "") -> UserError:
        known = list(self.columns)
        shown = ", ".join(known[:MAX_COLUMNS_LISTED])
        more = f" and {len(known) - MAX_COLUMNS_LISTED} more" * (len(known) > MAX_COLUMNS_LISTED)
        return self.error(
            f"{what or f'no column {name}'}; there are {shown}{more}{closest(name, known)}",
            hint=f"Name one of these with {option}.",
        )

    def rows(self, *names: str) -> Iterator[tuple[Any, ...]]:
        return zip(*(self.columns[name] for name in names), strict=True)

    def error(self, what: str, *, row: int | None = None, hint: str = "") -> UserError:
        where = self.title if row is None else f"{self.title}, {self.at[row]}"
        return UserError(what, topic="judge", where=where, hint=hint)


def as_key(value: object) -> str:
    """One spelling of an id or a label, whatever format it was read from: 7, 7.0 and "7" are 7."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def is_missing(value: object) -> bool:
    """None, an empty cell, or the NaN or NA that stands for one in a data frame."""
    try:
        return value is None or bool(value == "" or value != value)
    except TypeError:  # NA of pandas is neither true nor false
        return True
    except ValueError:  # an array
        return False
