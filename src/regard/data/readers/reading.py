"""What readers share: records and the columns asked for, the tally of what is left out, complaints.

A reader finds rows; a `RecordReader` to the file turns them into records by role, drops rows without
text, refuses values of the wrong sort, and tallies what is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from regard.core.errors import UserError

Split = Literal["train", "dev", "test"]
Unit = Literal["line", "paragraph", "file"]
Holds = Literal["text", "texts", "value", "mark"]
"""`text`: a string; `texts`: a string or a list of them; a row where either is empty is dropped.
`value`: a string, number, true/false, list or object. `mark`: such a value, or nothing."""
TEXTS: tuple[Holds, ...] = ("text", "texts")

SKIP = "Set data.skip_bad_rows = true to drop such rows (they are counted)"


class Text(NamedTuple):
    """One document; documents of one `group` always stay in the same part of a split."""

    text: str
    group: str | None = None


class Record(dict[str, Any]):
    """One row: its values by role; `at` says where it stands (`reviews.csv, row 3`)."""

    __slots__ = ("at", "group", "part")

    def __init__(
        self,
        values: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        at: str = "",
        group: str | None = None,
        part: Split | None = None,
    ) -> None:
        dict.__init__(self, values)
        self.at = at
        self.group = group
        "Records of one group stay in the same part of a split."
        self.part = part
        "The part it belongs to, where its source has a split of its own."


class Column(NamedTuple):
    """A column somebody asked for, and the setting in which they did."""

    name: str = "text"
    setting: str = "data.text"
    holds: Holds = "text"
    optional: bool = False


class ReadOptions(NamedTuple):
    """How files are to be read: the part of the `[data]` table that concerns readers."""

    columns: Mapping[str, Column] | None = {"text": Column()}
    "By role; None asks for every column under its own name, as it is."
    unit: Unit = "line"
    skip_bad_rows: bool = False
    header: bool = True


class RawRow(NamedTuple):
    """What a reader found: values by role, and where in the file."""

    at: str
    values: Mapping[str, Any]
    group: str | None = None
    part: Split | None = None


@dataclass
class DropCounts:
    """What was left out, by file; reading a file again starts its counts anew."""

    empty: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)

    def start(self, file: str) -> None:
        self.empty[file] = self.bad[file] = 0

    def of(self, files: Iterable[str]) -> DropCounts:
        """What was left out of these files alone."""
        here = set(files)
        return DropCounts(
            empty={file: count for file, count in self.empty.items() if file in here},
            bad={file: count for file, count in self.bad.items() if file in here},
        )

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


@dataclass(frozen=True)
class RecordReader:
    """One reading of one file: what is asked of it, and where its losses are tallied."""

    name: str
    reading: ReadOptions
    dropped: DropCounts

    def __post_init__(self) -> None:
        self.dropped.start(self.name)

    def empty(self) -> None:
        self.dropped.empty[self.name] += 1

    def bad(self, problem: UserError) -> None:
        """Drop and count a row that cannot be read, where the person allows it."""
        if not self.reading.skip_bad_rows:
            raise problem
        self.dropped.bad[self.name] += 1

    def complain(self, what: str, *, at: str = "", hint: str = "") -> UserError:
        return complain(self.name, what, at=at, hint=hint)

    def found(self, names: Sequence[str], *, hint: str = "") -> dict[str, str]:
        """The name of each role's column among those of a table; a needed one has to be there."""
        if self.reading.columns is None:
            return {name: name for name in names}
        for column in self.reading.columns.values():
            if names.count(column.name) > 1:
                what = f"{names.count(column.name)} columns are called {column.name!r}"
                raise self.complain(what, hint="Rename all but one.")
            if column.name not in names and not column.optional:
                raise no_such(self.name, "column", names, column, hint=hint)
        columns = self.reading.columns.items()
        return {role: column.name for role, column in columns if column.name in names}

    def sole(self) -> list[str]:
        """The roles that the one column of plain text plays: those that name it, or the first."""
        if self.reading.columns is None:
            return ["text"]
        columns = self.reading.columns
        roles = [role for role, column in columns.items() if column.name == "text"]
        roles = roles or [next(iter(columns))]
        for role, column in columns.items():
            if role not in roles and not column.optional:
                raise no_such(self.name, "column", ["text"], column)
        return roles

    def records(self, rows: Iterable[RawRow]) -> Iterator[Record]:
        """The rows that hold what is asked for."""
        for row in rows:
            try:
                record = self._record(row)
            except UserError as problem:
                self.bad(problem)
                continue
            if record is None:
                self.empty()
            else:
                yield record

    def _record(self, row: RawRow) -> Record | None:
        """None where a text is empty."""
        at, values, group, part = row
        record = Record((), f"{self.name}, {at}" if at else self.name, group, part)
        if self.reading.columns is None:
            record.update(values)
            return record
        for role, column in self.reading.columns.items():
            value = values.get(role)
            if value is None:
                if column.optional or column.holds == "mark":
                    continue
                if column.holds != "value":
                    return None
                hint = f"{SKIP}, or give it a value."
                raise self.complain(f"{column.name!r} holds nothing", at=at, hint=hint)
            if not isinstance(value, str) and (misfit := _misfit(value, column)):
                hint = f"{SKIP}, or set {column.setting} to {_meant('column', column)}."
                raise self.complain(misfit, at=at, hint=hint)
            if column.holds in TEXTS and not column.optional and _is_blank(value):
                return None
            record[role] = value
        return record


def complain(name: object, what: str, *, at: str = "", hint: str = "") -> UserError:
    return UserError(what, topic="data", where=f"{name}, {at}" if at else str(name), hint=hint)


def no_such(
    name: object, sort: str, names: Sequence[str], column: Column, *, at: str = "", hint: str = ""
) -> UserError:
    shown = [each if len(each) <= 40 else each[:39] + "…" for each in names[:12]]
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    close = get_close_matches(column.name, names, n=1, cutoff=0.6)
    guess = f" — did you mean {close[0]!r}?" if close else ""
    return complain(
        name,
        f"no {sort} {column.name!r}; there {'is' if len(names) == 1 else 'are'} "
        f"{', '.join(map(repr, shown)) or 'none'}{more}{guess}",
        at=at,
        hint=f"Set {column.setting} to {_meant(sort, column)}{hint}.",
    )


def sort_of(value: Any) -> str:
    """What JSON calls such a value."""
    names = {dict: "object", list: "list", str: "string", bool: "true/false", type(None): "null"}
    usual = "number" if isinstance(value, int | float) else type(value).__name__
    return names.get(type(value), usual)


def _meant(sort: str, column: Column) -> str:
    return f"the {sort} that {'holds the text' if column.holds in TEXTS else 'is meant'}"


def _misfit(value: Any, column: Column) -> str:
    """What is wrong with a value that is no string, in words; nothing where it fits."""
    holds = f"{column.name!r} holds a {sort_of(value)}"
    if column.holds == "text":
        return f"{holds}, not text"
    if column.holds == "texts":
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return "" if fits else f"{holds}, neither text nor a list of texts"
    fits = isinstance(value, int | float | list | dict)
    return "" if fits else f"{holds}, neither text nor number nor list"


def _is_blank(value: str | list[str]) -> bool:
    return not (value.strip() if isinstance(value, str) else "".join(value).strip())
