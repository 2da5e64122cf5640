"""A table as a stranger's file has it: its rows in columns, and how it is written.

Reads the beginning of a file, as far as `MAX_CHARACTERS` and `MAX_ROWS` go; the same readers as
those of a training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.readers.csv_layout import SEPARATORS, find_csv_layout
from regard.data.readers.encoding import ENCODING_NAMES, Encoding, detect_encoding
from regard.data.readers.formats import file_format, read_records, table_header
from regard.data.readers.records import DropCounts, ReadOptions, data_error
from regard.data.recognition.header import has_header

MAX_CHARACTERS = 30_000_000
MAX_ROWS = 100_000
MAX_FILES = 20
"Files of which rows are read."
HEADER_ROWS = 200
"Rows by which a header is recognised."


@dataclass(frozen=True)
class TableSample:
    """The rows of one file, or of its beginning; of several files of the same columns."""

    path: Path
    columns: Mapping[str, list[Any]]
    rows: int
    complete: bool
    "Whether these are all rows of the file."
    header: bool
    "Whether the first row names the columns; true of formats whose rows name them."
    separator: str
    "The name of what separates the cells; empty if nothing does."
    encoding: Encoding
    bad_rows: int
    "Rows with another number of cells than the header."
    empty_rows: int
    files: int = 1

    def describe(self) -> str:
        """`1,204 rows, separated by semicolons, cp1252, no header line`"""
        return ", ".join([self.count(), *self.writing()])

    def count(self) -> str:
        files = f" in {self.files} files" if self.files > 1 else ""
        return f"{'' if self.complete else 'more than '}{_count(self.rows, 'row')}{files}"

    def writing(self) -> list[str]:
        """How the file is written, as far as it is worth a word."""
        said = []
        if self.separator:
            said.append(f"separated by {self.separator}s")
        if self.encoding != "utf-8":
            said.append(ENCODING_NAMES[self.encoding])
        if not self.header:
            said.append("no header line, so columns are 1, 2, …")
        if self.empty_rows:
            said.append(f"{_count(self.empty_rows, 'empty row')} left out")
        if self.bad_rows:
            said.append(f"{_count(self.bad_rows, 'row')} of another number of cells left out")
        return said


def read_table(path: Path, *, header: bool | None = None) -> TableSample:
    """`header` overrides what the first rows say."""
    layout = file_format(path)
    is_cells = layout in ("csv", "tsv")
    found = _has_header(path) if header is None and is_cells else header in (None, True)
    options = ReadOptions(columns=None, skip_bad_rows=True, header=found if is_cells else True)
    if is_cells and found:
        _check_names(path, table_header(path))
    dropped = DropCounts()
    columns: dict[str, list[Any]] = {}
    rows = characters = 0
    complete = True
    for record in read_records(path, options, dropped):
        if rows >= MAX_ROWS or characters > MAX_CHARACTERS:
            complete = False
            break
        flat = dict(_flatten(record))
        for name in flat:
            if name not in columns:
                columns[name] = [None] * rows
        for name, values in columns.items():
            value = flat.get(name)
            values.append(value)
            characters += len(value) if isinstance(value, str) else 8
        rows += 1
    if not rows:
        list(read_records(path, options._replace(skip_bad_rows=False), DropCounts()))  # says why
        raise data_error(path, "there is no row in this file", hint="Give rows of text.")
    return TableSample(
        path,
        columns,
        rows,
        complete,
        header=options.header,
        separator=_separator(path, header=options.header) if is_cells and len(columns) > 1 else "",
        encoding="utf-8" if layout == "parquet" else detect_encoding(path),
        bad_rows=dropped.total("bad"),
        empty_rows=dropped.total("empty"),
    )


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def read_tables(paths: Sequence[Path], *, header: bool | None = None) -> TableSample:
    """Files of the same columns as one table; the first decides how they are written."""
    first = read_table(paths[0], header=header)
    others = [read_table(path, header=first.header) for path in paths[1:MAX_FILES]]
    tables = [first, *others]
    names = dict.fromkeys(name for table in tables for name in table.columns)
    columns = {
        name: [cell for table in tables for cell in table.columns.get(name, [None] * table.rows)]
        for name in names
    }
    return replace(
        first,
        columns=columns,
        rows=sum(table.rows for table in tables),
        files=len(paths),
        complete=all(table.complete for table in tables) and len(paths) <= MAX_FILES,
        bad_rows=sum(table.bad_rows for table in tables),
        empty_rows=sum(table.empty_rows for table in tables),
    )


def repeated_headers(table: TableSample) -> int:
    """Rows that say their columns' names, as where files with headers were joined."""
    if not table.header:
        return 0
    columns = [table.columns[name] for name in table.columns]
    return sum(list(map(str, row)) == [*table.columns] for row in zip(*columns, strict=True))


def _check_names(path: Path, header: Sequence[str]) -> None:
    for name in filter(str.strip, header):
        if header.count(name) > 1:
            what = f"{header.count(name)} columns are called {name!r}"
            raise data_error(path, what, hint="Rename all but one.")


def _flatten(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Keys of objects inside a row as `answers.text`, which a recipe may name."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _has_header(path: Path) -> bool:
    options = ReadOptions(columns=None, skip_bad_rows=True, header=False)
    sampled = islice(read_records(path, options, DropCounts()), HEADER_ROWS)
    rows = [list(record.values()) for record in sampled]
    return not rows or has_header(rows[0], rows[1:])


def _separator(path: Path, *, header: bool) -> str:
    if file_format(path) == "tsv":
        return "tab"
    separator = find_csv_layout(path, header=header).separator
    return SEPARATORS.get(separator, repr(separator))
