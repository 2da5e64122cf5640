"""Records, the columns to read, counts of dropped rows, and data errors: shared by all readers.

A reader of a format yields raw rows; a `RecordReader` turns them into records by role, drops rows
without text, refuses values of the wrong type, and counts what it drops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from regard.core.errors import UserError, closest
from regard.core.printable import truncate

Split = Literal["train", "dev", "test"]
Unit = Literal["line", "paragraph", "file"]
ColumnType = Literal["text", "texts", "value", "label", "split_key"]
"""`text`: a string; `texts`: a string or a list of strings; a row with an empty one is dropped.
`value`: a string, number, true/false, list or object. `label`: such a value, and no blank string,
for an empty cell is no class. `split_key`: such a value or nothing, read only to split by."""
TEXT_TYPES: tuple[ColumnType, ...] = ("text", "texts")

SKIP_HINT = "Set data.skip_bad_rows = true to drop such rows (they are counted)"


class Record(dict[str, Any]):
    """One row: its values by role; `at` is its location (`reviews.csv, row 3`)."""

    __slots__ = ("at", "group", "split")

    def __init__(
        self,
        values: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        at: str = "",
        group: str | None = None,
        split: Split | None = None,
    ) -> None:
        dict.__init__(self, values)
        self.at = at
        self.group = group
        "Records of one group stay in the same split, and scores vary over groups."
        self.split = split
        "The split that its source assigns it to, if the source has predefined splits."

    def error(self, what: str, *, hint: str) -> UserError:
        return UserError(what, topic="data", where=self.at, hint=hint)


class Column(NamedTuple):
    """A column to read, and the setting that names it."""

    name: str = "text"
    setting: str = "data.text"
    type: ColumnType = "text"
    optional: bool = False


class ReadOptions(NamedTuple):
    """How files are read: the settings of `[data]` that concern readers."""

    columns: Mapping[str, Column] | None = {"text": Column()}
    "By role; None reads every column under its own name, with its own type."
    unit: Unit = "line"
    skip_bad_rows: bool = False
    header: bool = True


class RawRow(NamedTuple):
    """A row as a reader found it: values by role, and where in the file it is."""

    at: str
    values: Mapping[str, Any]
    group: str | None = None
    split: Split | None = None


@dataclass
class DropCounts:
    """Numbers of dropped rows by file and reason; reading a file again resets its counts."""

    files: dict[str, dict[str, int]] = field(default_factory=dict)

    def reset(self, file: str) -> None:
        self.files[file] = {"empty": 0, "bad": 0}

    def for_files(self, files: Iterable[str]) -> DropCounts:
        """The counts of these files alone."""
        return DropCounts({file: self.files[file] for file in files if file in self.files})

    def total(self, reason: str) -> int:
        return sum(counts[reason] for counts in self.files.values())

    def as_dict(self) -> dict[str, Any]:
        """`{"empty": 3, "bad": 1, "files": {"reviews.csv": {"empty": 3, "bad": 1}}}`"""
        files = {file: dict(counts) for file, counts in self.files.items() if any(counts.values())}
        return {"empty": self.total("empty"), "bad": self.total("bad"), "files": files}

    def __str__(self) -> str:
        """`3 empty rows dropped, 1 bad row dropped`; empty if nothing was dropped."""
        return ", ".join(
            f"{count:,} {reason} row{'s' * (count != 1)} dropped"
            for reason in ("empty", "bad")
            if (count := self.total(reason))
        )


@dataclass(frozen=True)
class RecordReader:
    """One pass over one file: turns raw rows into records and counts dropped rows."""

    name: str
    options: ReadOptions
    dropped: DropCounts

    def __post_init__(self) -> None:
        self.dropped.reset(self.name)

    def drop_empty(self) -> None:
        self.dropped.files[self.name]["empty"] += 1

    def drop_bad(self, problem: UserError) -> None:
        """Count a row that cannot be read if `skip_bad_rows` allows it, else raise."""
        if not self.options.skip_bad_rows:
            raise problem
        self.dropped.files[self.name]["bad"] += 1

    def error(self, what: str, *, at: str = "", hint: str = "") -> UserError:
        return data_error(self.name, what, at=at, hint=hint)

    def match_columns(self, names: Sequence[str], *, hint: str = "") -> dict[str, str]:
        """The column name of each role among those of a table; a missing one is an error."""
        if self.options.columns is None:
            return {name: name for name in names}
        for column in self.options.columns.values():
            if names.count(column.name) > 1:
                what = f"{names.count(column.name)} columns are called {column.name!r}"
                raise self.error(what, hint="Rename all but one.")
            if column.name not in names and not column.optional:
                raise missing_column_error(self.name, "column", names, column, hint=hint)
        columns = self.options.columns.items()
        return {role: column.name for role, column in columns if column.name in names}

    def text_column_roles(self) -> list[str]:
        """The roles of the only column of plain text: those that name it, else the first."""
        if self.options.columns is None:
            return ["text"]
        columns = self.options.columns
        roles = [role for role, column in columns.items() if column.name == "text"]
        roles = roles or [next(iter(columns))]
        for role, column in columns.items():
            if role not in roles and not column.optional:
                raise missing_column_error(self.name, "column", ["text"], column)
        return roles

    def records(self, rows: Iterable[RawRow]) -> Iterator[Record]:
        """The valid rows as records; empty and bad rows are dropped and counted."""
        for row in rows:
            try:
                record = self._record(row)
            except UserError as problem:
                self.drop_bad(problem)
                continue
            if record is None:
                self.drop_empty()
            else:
                yield record

    def _record(self, row: RawRow) -> Record | None:
        """None if a text is empty."""
        at, values, group, split = row
        record = Record((), f"{self.name}, {at}" if at else self.name, group, split)
        if self.options.columns is None:
            record.update(values)
            return record
        for role, column in self.options.columns.items():
            value = values.get(role)
            if column.type == "label" and isinstance(value, str) and not value.strip():
                value = None
            if value is None:
                if column.optional or column.type == "split_key":
                    continue
                if column.type in TEXT_TYPES:
                    return None
                hint = f"{SKIP_HINT}, or give it a value."
                raise self.error(f"{column.name!r} holds nothing", at=at, hint=hint)
            if not isinstance(value, str) and (mismatch := _type_mismatch(value, column)):
                hint = f"{SKIP_HINT}, or set {column.setting} to {_right_column('column', column)}."
                raise self.error(mismatch, at=at, hint=hint)
            if column.type in TEXT_TYPES and not column.optional and _is_blank(value):
                return None
            record[role] = value
        return record


def data_error(name: object, what: str, *, at: str = "", hint: str = "") -> UserError:
    return UserError(what, topic="data", where=f"{name}, {at}" if at else str(name), hint=hint)


def missing_column_error(
    name: object, noun: str, names: Sequence[str], column: Column, *, at: str = "", hint: str = ""
) -> UserError:
    """`noun` is what the format calls a column: `column` or `key`."""
    shown = [truncate(each, 40) for each in names[:12]]
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    guess = closest(column.name, names, quoted=True)
    return data_error(
        name,
        f"no {noun} {column.name!r}; there {'is' if len(names) == 1 else 'are'} "
        f"{', '.join(map(repr, shown)) or 'none'}{more}{guess}",
        at=at,
        hint=f"Set {column.setting} to {_right_column(noun, column)}{hint}.",
    )


def json_type(value: Any) -> str:
    """The JSON type of a value."""
    names = {dict: "object", list: "list", str: "string", bool: "true/false", type(None): "null"}
    other = "number" if isinstance(value, int | float) else type(value).__name__
    return names.get(type(value), other)


def _right_column(noun: str, column: Column) -> str:
    return f"the {noun} that {'holds the text' if column.type in TEXT_TYPES else 'is meant'}"


def _type_mismatch(value: Any, column: Column) -> str:
    """What is wrong with a value that is not a string; empty if it has the right type."""
    holds = f"{column.name!r} holds a {json_type(value)}"
    if column.type == "text":
        return f"{holds}, not text"
    if column.type == "texts":
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return "" if fits else f"{holds}, neither text nor a list of texts"
    fits = isinstance(value, int | float | list | dict)
    return "" if fits else f"{holds}, neither text nor number nor list"


def _is_blank(value: str | list[str]) -> bool:
    return not (value.strip() if isinstance(value, str) else "".join(value).strip())
