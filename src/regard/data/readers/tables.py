"""Readers of CSV and TSV; a row with another number of columns than the header is an error.

Commas, semicolons, tabs or bars separate the cells of a CSV file (`csv_layout.py`).

Without a header line (`data.header = false`) the columns are called 1, 2, …; a row may then have
more columns than are used, never fewer.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.readers.csv_layout import SEPARATORS, CsvLayout, find_csv_layout
from regard.data.readers.lines import read_lines
from regard.data.readers.records import SKIP_HINT, RawRow, Record, RecordReader

# A quote that is never closed would swallow the rest of the file; no real cell is this long.
MAX_CELL_LENGTH = 1 << 24
CARRIAGE_RETURN = "new-line character seen in unquoted field"
CURLY = re.compile("\\s*[“”„]")
STRAIGHT = 'Quote cells with straight quotes, ".'
NO_HEADER = (
    ", or set data.header = false if the file has no header line (columns are then 1, 2 and so on)"
)

ByRole = Callable[[list[str]], dict[str, str] | str]
"A row's cells by role, or a message why they do not fit."


class _Cells(NamedTuple):
    at: str
    cells: list[str]

    @property
    def is_blank(self) -> bool:
        return not any(map(str.strip, self.cells))


def read_csv(path: Path, reader: RecordReader) -> Iterator[Record]:
    """Quoted as in spreadsheets; a quoted cell may contain line ends."""
    csv.field_size_limit(MAX_CELL_LENGTH)  # the default of 128 KB is less than one long article
    layout = find_csv_layout(path, header=reader.options.header)
    lines = islice(read_lines(path), layout.lines_above, None)
    source = csv.reader((line + "\n" for line in lines), delimiter=layout.separator, strict=True)
    name = SEPARATORS.get(layout.separator, repr(layout.separator))
    cells = _csv_cells(source, reader, layout)
    yield from reader.records(_rows(cells, reader, fix=f"quote the {name}"))


def csv_header(path: Path) -> list[str]:
    """The names of a CSV file's columns."""
    layout = find_csv_layout(path, header=True)
    lines = islice(read_lines(path), layout.lines_above, None)
    first = next(filter(str.strip, lines), "")
    try:
        return next(csv.reader([first], delimiter=layout.separator), [])
    except csv.Error:  # reported by the reader of rows
        return []


def _csv_cells(source: Any, reader: RecordReader, layout: CsvLayout) -> Iterator[_Cells]:
    separator, lines_above = layout
    number = 0
    while True:
        number += 1
        first_line = source.line_num + 1 + lines_above
        at = f"row {number:,}" + (f" (line {first_line:,})" if first_line != number else "")
        try:
            cells = next(source)
        except StopIteration:
            return
        except csv.Error as problem:
            if "end of data" in str(problem) or "field limit" in str(problem):
                # Never skipped: the bad row would be the rest of the file.
                hint = 'Close it, or write a quote inside a quoted cell twice: "".'
                if separator == "\t":
                    hint = "If quotes are ordinary characters in it, rename the file to .tsv."
                raise reader.error("a quote is opened and never closed", at=at, hint=hint) from None
            what, fix = f"not valid CSV ({problem})", 'write a quote inside a quoted cell twice: ""'
            if str(problem).startswith(CARRIAGE_RETURN):
                what = "a carriage return in a cell that is not quoted"
                fix = "save the file with line ends LF or CRLF"
            reader.drop_bad(reader.error(what, at=at, hint=f"{SKIP_HINT}, or {fix}."))
        else:
            yield _Cells(at, cells)


def tsv_header(path: Path) -> list[str]:
    return next(filter(str.strip, read_lines(path)), "").split("\t")


def read_tsv(path: Path, reader: RecordReader) -> Iterator[Record]:
    """Tab-separated; quotes are ordinary characters, as IANA defines it."""
    cells = (
        _Cells(f"row {number:,}", line.split("\t"))
        for number, line in enumerate(read_lines(path), start=1)
    )
    yield from reader.records(_rows(cells, reader, fix="remove the stray tab"))


def _rows(rows: Iterator[_Cells], reader: RecordReader, *, fix: str) -> Iterator[RawRow]:
    if reader.options.header:
        header = next((row.cells for row in rows if not row.is_blank), None)
        if header is None:
            return
        by_role = _by_header(header, reader)
    else:
        by_role = _by_number(reader)
    for row in rows:
        if row.is_blank:
            reader.drop_empty()
            continue
        values = by_role(row.cells)
        if isinstance(values, str):
            hint = STRAIGHT if any(map(CURLY.match, row.cells)) else f"{SKIP_HINT}, or {fix}."
            reader.drop_bad(reader.error(values, at=row.at, hint=hint))
        else:
            yield RawRow(row.at, values)


def _by_header(header: list[str], reader: RecordReader) -> ByRole:
    indices = {
        role: header.index(name)
        for role, name in reader.match_columns(header, hint=NO_HEADER).items()
    }

    def by_role(cells: list[str]) -> dict[str, str] | str:
        if len(cells) != len(header):
            return f"{_column_count(cells)} where the header has {len(header)}"
        return {role: cells[index] for role, index in indices.items()}

    return by_role


def _by_number(reader: RecordReader) -> ByRole:
    columns = reader.options.columns
    if columns is None:
        return lambda cells: {str(number): cell for number, cell in enumerate(cells, start=1)}
    indices = {}
    for role, column in columns.items():
        if column.name.isdecimal() and int(column.name) > 0:
            indices[role] = int(column.name) - 1
        elif not column.optional:
            raise reader.error(
                f"without a header line columns are called 1, 2, …, and {column.setting} is "
                f"{column.name!r}",
                hint=f"Set {column.setting} to a number, or data.header = true.",
            )
    required = [
        (indices[role], column.setting) for role, column in columns.items() if not column.optional
    ]
    last, setting = max(required, default=(-1, ""))

    def by_role(cells: list[str]) -> dict[str, str] | str:
        if len(cells) <= last:
            return f"{_column_count(cells)} where {setting} names column {last + 1}"
        return {role: cells[index] for role, index in indices.items() if index < len(cells)}

    return by_role


def _column_count(cells: list[str]) -> str:
    return f"{len(cells)} column{'s' * (len(cells) > 1)}"
