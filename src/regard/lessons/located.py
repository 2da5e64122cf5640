"""Values of JSON and CSV files that know where they stand, so that a complaint can name the place.

Python's own reader tells the place of broken syntax, not of a value that is out of place: a word
among numbers, a row that is too short. This one keeps line and column of every value; in a CSV file
a column is a cell. A CSV file may hold several tables, each below a line with its name:

    bpe
    u,g
    wordpiece
    ##g,##s
"""

from __future__ import annotations

import csv
import io
import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import UserError

BLANK = " \t\r\n"
DEEPEST = 50
"Brackets within brackets; an answer has two or three."


@dataclass(frozen=True)
class LocatedValue:
    """A value, and where it begins; lists and tables hold located values."""

    value: Any
    line: int
    column: int
    cell: str | None = None
    "As a CSV file has it: 1 may be meant as a word."

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, list):
            return [one.plain() for one in self.value]
        if isinstance(self.value, dict):
            return {key: one.plain() for key, one in self.value.items()}
        return self.value

    def where(self, file: str) -> str:
        return f"{file}, line {self.line}, column {self.column}"


def read_located(path: Path) -> LocatedValue:
    """A .json file as it is; a .csv file as a list of rows, numbers where they are numbers."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise _problem("is not there", path) from None
    except UnicodeDecodeError:
        raise _problem("is not text in UTF-8", path) from None
    except OSError as problem:
        raise _problem(f"cannot be read ({problem.strerror})", path) from None
    if path.suffix.lower() == ".csv":
        return _csv(text, path)
    if path.suffix.lower() == ".json":
        return _json(text, path)
    raise _problem("is neither .json nor .csv", path)


def _problem(what: str, path: Path) -> UserError:
    return UserError(what, topic="exercise", where=str(path))


def _json(text: str, path: Path) -> LocatedValue:
    try:
        json.loads(text)  # the syntax, judged by Python's own reader; below it is known to be right
    except json.JSONDecodeError as problem:
        place = LocatedValue(None, problem.lineno, problem.colno).where(str(path))
        raise UserError(
            problem.msg[:1].lower() + problem.msg[1:], topic="exercise", where=place
        ) from None
    except (RecursionError, ValueError):
        raise _problem("is nested too deeply, or holds a number too long", path) from None
    return _Reader(text, path).value(_skip(text, 0), depth=0)[0]


def _csv(text: str, path: Path) -> LocatedValue:
    rows = []
    try:
        lines = csv.reader(io.StringIO(text), strict=True)
        for row in lines:
            if any(cell.strip() for cell in row):
                cells = [
                    LocatedValue(
                        _number_or_word(cell.strip()), lines.line_num, number, cell.strip()
                    )
                    for number, cell in enumerate(row, start=1)
                ]
                rows.append(LocatedValue(cells, lines.line_num, 1))
                _check_commas(cells, path)
    except csv.Error as problem:
        place = f"{path}, line {lines.line_num}, column 1"
        raise UserError(str(problem), topic="exercise", where=place) from None
    return LocatedValue(rows, 1, 1)


def _check_commas(cells: list[LocatedValue], path: Path) -> None:
    """Spreadsheets of many countries part cells by semicolons, and write 0,5."""
    for one in cells:
        if one.cell and ";" in one.cell:
            raise UserError(
                "cells are parted by commas, and this one holds a semicolon",
                topic="exercise",
                where=one.where(str(path)),
                hint="Save it with commas between cells and points in numbers.",
            )


def _number_or_word(cell: str) -> int | float | str:
    for read in (int, float):
        try:
            return read(cell)
        except ValueError:
            continue
    return cell


def named_blocks(read: LocatedValue, names: Sequence[str], path: Path) -> LocatedValue:
    """A CSV file in which lines begin with one of the names, as a table of what belongs to each.

    Anything else stays as it is. `head,514` is a name and its value on one line; empty cells at
    the end of a line, as spreadsheets leave them, do not count."""
    rows = read.value if isinstance(read.value, list) else []
    if not rows or not _names_a_block(rows[0], names):
        return read
    blocks: dict[str, LocatedValue] = {}
    block: list[LocatedValue] = []
    for row in rows:
        cells = row.value
        while cells[-1].cell == "":
            cells = cells[:-1]
        if _names_a_block(row, names):
            if (name := cells[0].cell) in blocks:
                where = cells[0].where(str(path))
                raise UserError(
                    f"{name!r} stands here a second time", topic="exercise", where=where
                )
            block = []
            blocks[name] = LocatedValue(block, row.line, 1)
            cells = cells[1:]
        if cells:
            block.append(LocatedValue(cells, row.line, cells[0].column))
    return LocatedValue(blocks, read.line, read.column)


def _names_a_block(row: LocatedValue, names: Sequence[str]) -> bool:
    return isinstance(row.value, list) and bool(row.value) and row.value[0].cell in names


class _Reader:
    """Walks over JSON that is known to be right."""

    def __init__(self, text: str, path: Path) -> None:
        self.text = text
        self.path = path
        self.line_starts = [0, *(n + 1 for n, one in enumerate(text) if one == "\n")]

    def value(self, at: int, *, depth: int) -> tuple[LocatedValue, int]:
        """The value that begins at `at`, and where it has ended."""
        if depth > DEEPEST:
            raise _problem("is nested too deeply", self.path)
        first = self.text[at]
        found: Any
        if first == "{":
            found, end = self._table(at, depth)
        elif first == "[":
            found, end = self._list(at, depth)
        else:
            found, end = json.JSONDecoder().raw_decode(self.text, at)
        return self._placed(found, at), end

    def _list(self, at: int, depth: int) -> tuple[list[LocatedValue], int]:
        items: list[LocatedValue] = []
        at = _skip(self.text, at + 1)
        while self.text[at] != "]":
            item, at = self.value(at, depth=depth + 1)
            items.append(item)
            at = _past_comma(self.text, at)
        return items, at + 1

    def _table(self, at: int, depth: int) -> tuple[dict[str, LocatedValue], int]:
        table: dict[str, LocatedValue] = {}
        at = _skip(self.text, at + 1)
        while self.text[at] != "}":
            key, at = json.JSONDecoder().raw_decode(self.text, at)
            colon = _skip(self.text, at)
            found, at = self.value(_skip(self.text, colon + 1), depth=depth + 1)
            if key in table:
                place = found.where(str(self.path))
                raise UserError(f"{key!r} stands here a second time", topic="exercise", where=place)
            table[key] = found
            at = _past_comma(self.text, at)
        return table, at + 1

    def _placed(self, value: Any, at: int) -> LocatedValue:
        line = bisect_right(self.line_starts, at)
        return LocatedValue(value, line, at - self.line_starts[line - 1] + 1)


def _skip(text: str, at: int) -> int:
    while text[at] in BLANK:
        at += 1
    return at


def _past_comma(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at
