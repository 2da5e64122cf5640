"""Texts out of one column of a CSV or TSV file; a row that does not fit its header is named."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from regard.text.lines import lines
from regard.text.reading import SKIP, Dropped, Reading, complain, find_column

# A quote that is never closed would swallow the rest of the file; no text of one cell is as long.
LONGEST_CELL = 1 << 24


class _Row(NamedTuple):
    at: str
    cells: list[str]


def read_csv(path: Path, reading: Reading, dropped: Dropped) -> Iterator[str]:
    """CSV with a header, quoted as spreadsheets do; a quoted cell may hold line ends."""
    csv.field_size_limit(LONGEST_CELL)  # the module's 128 KB is less than one long article
    source = csv.reader((line + "\n" for line in lines(path)), strict=True)
    rows = _csv_rows(path, source, reading, dropped)
    yield from _column(path, rows, reading, dropped, cure="quote the comma")


def _csv_rows(path: Path, source: Any, reading: Reading, dropped: Dropped) -> Iterator[_Row]:
    number = 0
    while True:
        number += 1
        first_line = source.line_num + 1
        at = f"row {number:,}" + (f" (line {first_line:,})" if first_line != number else "")
        try:
            yield _Row(at, next(source))
        except StopIteration:
            return
        except csv.Error as problem:
            if "end of data" in str(problem) or "field limit" in str(problem):
                # Never skipped: the one bad row would be the whole rest of the file.
                raise complain(
                    path,
                    "a quote is opened and never closed",
                    at=at,
                    mend='Close it, or write a quote inside a quoted cell twice: "".',
                ) from None
            if not reading.skip_bad_rows:
                mend = f'{SKIP}, or write a quote inside a quoted cell twice: "".'
                raise complain(path, f"not valid CSV ({problem})", at=at, mend=mend) from None
            dropped.bad[str(path)] += 1


def read_tsv(path: Path, reading: Reading, dropped: Dropped) -> Iterator[str]:
    """Tab-separated with a header; quotes are ordinary characters, as IANA's definition has it."""
    rows = (
        _Row(f"row {number:,}", line.split("\t"))
        for number, line in enumerate(lines(path), start=1)
    )
    yield from _column(path, rows, reading, dropped, cure="take the stray tab out")


def _column(
    path: Path, rows: Iterator[_Row], reading: Reading, dropped: Dropped, *, cure: str
) -> Iterator[str]:
    header = next((row.cells for row in rows if any(map(str.strip, row.cells))), None)
    if header is None:
        return
    index = find_column(path, header, reading.column)
    for row in rows:
        if not any(map(str.strip, row.cells)):
            dropped.empty[str(path)] += 1
        elif len(row.cells) != len(header):
            if not reading.skip_bad_rows:
                plural = "s" if len(row.cells) > 1 else ""
                raise complain(
                    path,
                    f"{len(row.cells)} column{plural} where the header has {len(header)}",
                    at=row.at,
                    mend=f"{SKIP}, or {cure}.",
                )
            dropped.bad[str(path)] += 1
        elif row.cells[index].strip():
            yield row.cells[index]
        else:
            dropped.empty[str(path)] += 1
