"""JSON and CSV values with their line and column, so that error messages can point at them.

Python's parsers locate syntax errors, but not a value of the wrong type or a row of the wrong
length. This reader keeps line and column of every value; in a CSV file the column counts cells. A
CSV file may hold several tables, each below a line with its name:

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

WHITESPACE = " \t\r\n"
MAX_DEPTH = 50
"Nested brackets; an answer has two or three."


@dataclass(frozen=True)
class LocatedValue:
    """A value and where it begins; lists and objects contain located values."""

    value: Any
    line: int
    column: int
    cell: str | None = None
    "Text of a CSV cell: 1 may be meant as a word."

    def plain(self) -> Any:
        """The value without locations."""
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        return self.value

    def where(self, file: str) -> str:
        return f"{file}, line {self.line}, column {self.column}"


def read_located(path: Path) -> LocatedValue:
    """A .json file as it is; a .csv file as a list of rows, numbers parsed."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise _error("is not there", path) from None
    except UnicodeDecodeError:
        raise _error("is not text in UTF-8", path) from None
    except OSError as error:
        raise _error(f"cannot be read ({error.strerror})", path) from None
    if path.suffix.lower() == ".csv":
        return _parse_csv(text, path)
    if path.suffix.lower() == ".json":
        return _parse_json(text, path)
    raise _error("is neither .json nor .csv", path)


def _error(what: str, path: Path) -> UserError:
    return UserError(what, topic="exercise", where=str(path))


def _parse_json(text: str, path: Path) -> LocatedValue:
    try:
        json.loads(text)  # checks the syntax; _JsonReader relies on it
    except json.JSONDecodeError as error:
        where = LocatedValue(None, error.lineno, error.colno).where(str(path))
        raise UserError(
            error.msg[:1].lower() + error.msg[1:], topic="exercise", where=where
        ) from None
    except (RecursionError, ValueError):
        raise _error("is nested too deeply, or holds a number too long", path) from None
    return _JsonReader(text, path).value(_skip_whitespace(text, 0), depth=0)[0]


def _parse_csv(text: str, path: Path) -> LocatedValue:
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
                _refuse_semicolons(cells, path)
    except csv.Error as error:
        where = f"{path}, line {lines.line_num}, column 1"
        raise UserError(str(error), topic="exercise", where=where) from None
    return LocatedValue(rows, 1, 1)


def _refuse_semicolons(cells: list[LocatedValue], path: Path) -> None:
    """Spreadsheets in many locales separate cells by semicolons and write 0,5."""
    for cell in cells:
        if cell.cell and ";" in cell.cell:
            raise UserError(
                "cells are separated by commas, and this one contains a semicolon",
                topic="exercise",
                where=cell.where(str(path)),
                hint="Save it with commas between cells and points in numbers.",
            )


def _number_or_word(cell: str) -> int | float | str:
    for parse in (int, float):
        try:
            return parse(cell)
        except ValueError:
            continue
    return cell


def named_blocks(rows: LocatedValue, names: Sequence[str], path: Path) -> LocatedValue:
    """A CSV file whose first line begins with one of the names, as a dict from name to rows.

    Anything else is returned unchanged. `head,514` is a name and its value on one line; empty
    cells at the end of a line, as spreadsheets leave them, are ignored."""
    lines = rows.value if isinstance(rows.value, list) else []
    if not lines or not _starts_block(lines[0], names):
        return rows
    blocks: dict[str, LocatedValue] = {}
    block: list[LocatedValue] = []
    for row in lines:
        cells = row.value
        while cells[-1].cell == "":
            cells = cells[:-1]
        if _starts_block(row, names):
            if (name := cells[0].cell) in blocks:
                where = cells[0].where(str(path))
                raise UserError(f"{name!r} is given twice", topic="exercise", where=where)
            block = []
            blocks[name] = LocatedValue(block, row.line, 1)
            cells = cells[1:]
        if cells:
            block.append(LocatedValue(cells, row.line, cells[0].column))
    return LocatedValue(blocks, rows.line, rows.column)


def _starts_block(row: LocatedValue, names: Sequence[str]) -> bool:
    return isinstance(row.value, list) and bool(row.value) and row.value[0].cell in names


class _JsonReader:
    """Walks over JSON whose syntax has been checked."""

    def __init__(self, text: str, path: Path) -> None:
        self.text = text
        self.path = path
        self.line_starts = [0, *(n + 1 for n, char in enumerate(text) if char == "\n")]

    def value(self, at: int, *, depth: int) -> tuple[LocatedValue, int]:
        """The value that begins at index `at`, and the index after it."""
        if depth > MAX_DEPTH:
            raise _error("is nested too deeply", self.path)
        first = self.text[at]
        value: Any
        if first == "{":
            value, end = self._object(at, depth)
        elif first == "[":
            value, end = self._array(at, depth)
        else:
            value, end = json.JSONDecoder().raw_decode(self.text, at)
        return self._located(value, at), end

    def _array(self, at: int, depth: int) -> tuple[list[LocatedValue], int]:
        items: list[LocatedValue] = []
        at = _skip_whitespace(self.text, at + 1)
        while self.text[at] != "]":
            item, at = self.value(at, depth=depth + 1)
            items.append(item)
            at = _skip_comma(self.text, at)
        return items, at + 1

    def _object(self, at: int, depth: int) -> tuple[dict[str, LocatedValue], int]:
        table: dict[str, LocatedValue] = {}
        at = _skip_whitespace(self.text, at + 1)
        while self.text[at] != "}":
            key, at = json.JSONDecoder().raw_decode(self.text, at)
            colon = _skip_whitespace(self.text, at)
            value, at = self.value(_skip_whitespace(self.text, colon + 1), depth=depth + 1)
            if key in table:
                where = value.where(str(self.path))
                raise UserError(f"{key!r} is given twice", topic="exercise", where=where)
            table[key] = value
            at = _skip_comma(self.text, at)
        return table, at + 1

    def _located(self, value: Any, at: int) -> LocatedValue:
        line = bisect_right(self.line_starts, at)
        return LocatedValue(value, line, at - self.line_starts[line - 1] + 1)


def _skip_whitespace(text: str, at: int) -> int:
    while text[at] in WHITESPACE:
        at += 1
    return at


def _skip_comma(text: str, at: int) -> int:
    at = _skip_whitespace(text, at)
    return _skip_whitespace(text, at + 1) if text[at] == "," else at
