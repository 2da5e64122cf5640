"""What separates the cells of a CSV file: a comma, semicolon, tab or bar.

Spreadsheets write semicolons where the comma is the decimal mark. The first line may say it
(`sep=;`); else it is what gives most rows as many cells as the first row. Ties go to the comma.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.data.readers.lines import read_lines

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECLARED_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
SAMPLED_LINES = 200
MIN_REGULAR = 0.8
"Fraction of the rows that have as many cells as the first, where that is no header."


class CsvLayout(NamedTuple):
    separator: str
    lines_above: int
    "Lines before the header, which are no rows."


def find_csv_layout(path: Path, *, header: bool) -> CsvLayout:
    lines = list(islice(read_lines(path), SAMPLED_LINES))
    if lines and (declared := DECLARED_SEPARATOR.fullmatch(lines[0])):
        return CsvLayout(declared[1], lines_above=1)
    return CsvLayout(find_separator(lines, header=header), lines_above=0)


def find_separator(lines: Sequence[str], *, header: bool) -> str:
    """The separator of these lines, the first of a file."""
    regular = {separator: _regularity(lines, separator) for separator in SEPARATORS}
    best = max(SEPARATORS, key=lambda separator: regular[separator])  # the first of the best
    return best if regular[best] >= (0.0 if header else MIN_REGULAR) else ","


def _regularity(lines: Sequence[str], separator: str) -> float:
    """Fraction of the rows that have as many cells as the first; −1 if that is one cell."""
    try:
        rows = list(csv.reader((line + "\n" for line in lines), delimiter=separator))
    except csv.Error:  # read again, and reported, by the reader of rows
        return -1.0
    if len(lines) == SAMPLED_LINES:
        rows = rows[:-1]  # may go on below
    counts = [len(row) for row in rows if any(map(str.strip, row))]
    if not counts or counts[0] < 2:
        return -1.0
    return counts.count(counts[0]) / len(counts)
