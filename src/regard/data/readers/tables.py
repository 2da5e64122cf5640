"""Rows out of CSV and TSV files; a row that does not fit its header is named.

Without a header line (`data.header = false`) the columns are called 1, 2, …; a row may then have
more of them than are asked for, never fewer.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.readers.lines import lines
from regard.data.readers.reading import SKIP, RawRow, Record, RecordReader

# A quote that is never closed would swallow the rest of the file; no text of one cell is as long.
LONGEST_CELL = 1 << 24
NO_HEADER = (
    ", or set data.header = false if the file has no header line (columns are then 1, 2 and so on)"
)

ByRole = Callable[[list[str]], dict[str, str] | str]
"A row's cells by role, or in words why they do not fit."


class _Cells(NamedTuple):
    at: str
    cells: list[str]

    @property
    def is_blank(self) -> bool:
        return not any(map(str.strip, self.cells))


def read_csv(path: Path, visit: RecordReader) -> Iterator[Record]:
    """Quoted as spreadsheets do; a quoted cell may hold line ends."""
    csv.field_size_limit(LONGEST_CELL)  # the module's 128 KB is less than one long article
    source = csv.reader((line + "\n" for line in lines(path)), strict=True)
    yield from visit.records(_rows(_csv_cells(source, visit), visit, cure="quote the comma"))


def _csv_cells(source: Any, visit: RecordReader) -> Iterator[_Cells]:
    number = 0
    while True:
        number += 1
        first_line = source.line_num + 1
        at = f"row {number:,}" + (f" (line {first_line:,})" if first_line != number else "")
        try:
            cells = next(source)
        except StopIteration:
            return
        except csv.Error as problem:
            if "end of data" in str(problem) or "field limit" in str(problem):
                # Never skipped: the one bad row would be the whole rest of the file.
                raise visit.complain(
                    "a quote is opened and never closed",
                    at=at,
                    hint='Close it, or write a quote inside a quoted cell twice: "".',
                ) from None
            hint = f'{SKIP}, or write a quote inside a quoted cell twice: "".'
            visit.bad(visit.complain(f"not valid CSV ({problem})", at=at, hint=hint))
        else:
            yield _Cells(at, cells)


def read_tsv(path: Path, visit: RecordReader) -> Iterator[Record]:
    """Tab-separated; quotes are ordinary characters, as IANA's definition has it."""
    cells = (
        _Cells(f"row {number:,}", line.split("\t"))
        for number, line in enumerate(lines(path), start=1)
    )
    yield from visit.records(_rows(cells, visit, cure="take the stray tab out"))


def _rows(rows: Iterator[_Cells], visit: RecordReader, *, cure: str) -> Iterator[RawRow]:
    if visit.reading.header:
        header = next((row.cells for row in rows if not row.is_blank), None)
        if header is None:
            return
        by_role = _named(header, visit)
    else:
        by_role = _numbered(visit)
    for row in rows:
        if row.is_blank:
            visit.empty()
            continue
        values = by_role(row.cells)
        if isinstance(values, str):
            visit.bad(visit.complain(values, at=row.at, hint=f"{SKIP}, or {cure}."))
        else:
            yield RawRow(row.at, values)


def _named(header: list[str], visit: RecordReader) -> ByRole:
    places = {
        role: header.index(name) for role, name in visit.found(header, hint=NO_HEADER).items()
    }

    def by_role(cells: list[str]) -> dict[str, str] | str:
        if len(cells) != len(header):
            return f"{_columns(cells)} where the header has {len(header)}"
        return {role: cells[place] for role, place in places.items()}

    return by_role


def _numbered(visit: RecordReader) -> ByRole:
    columns = visit.reading.columns
    if columns is None:
        return lambda cells: {str(number): cell for number, cell in enumerate(cells, start=1)}
    places = {}
    for role, column in columns.items():
        if column.name.isdecimal() and int(column.name) > 0:
            places[role] = int(column.name) - 1
        elif not column.optional:
            raise visit.complain(
                f"without a header line columns are called 1, 2, …, and {column.setting} asks for "
                f"{column.name!r}",
                hint=f"Set {column.setting} to a number, or data.header = true.",
            )
    needed = [
        (places[role], column.setting) for role, column in columns.items() if not column.optional
    ]
    farthest, asking = max(needed, default=(-1, ""))

    def by_role(cells: list[str]) -> dict[str, str] | str:
        if len(cells) <= farthest:
            return f"{_columns(cells)} where {asking} asks for column {farthest + 1}"
        return {role: cells[place] for role, place in places.items() if place < len(cells)}

    return by_role


def _columns(cells: list[str]) -> str:
    return f"{len(cells)} column{'s' * (len(cells) > 1)}"
