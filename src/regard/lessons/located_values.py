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

import codecs
import csv
import io
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.core.errors import UserError

JSON_TOKEN = re.compile(r'[\[\]{},:]|"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"]+')
"A token of valid JSON: bracket, separator, string, or number, true, false and null."
MAX_DEPTH = 50
"Nested brackets; an answer has two or three."


@dataclass(frozen=True)
class LocatedValue:
    """A value and where it begins; lists and objects contain located values."""

    value: Any
    file: Path
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

    def error(self, what: str, *, hint: str = "") -> UserError:
        """An error that names file, line and column of this value."""
        where = f"{self.file}, line {self.line}, column {self.column}"
        return UserError(what, topic="exercise", where=where, hint=hint)


def read_located(path: Path) -> LocatedValue:
    """A .json file as it is; a .csv file as a list of rows, numbers parsed."""
    try:
        content = path.read_bytes()
        is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
    except FileNotFoundError:
        raise _error("is not there", path) from None
    except UnicodeDecodeError:
        raise _error("is not text in UTF-8", path) from None
    except OSError as error:
        raise _error(f"cannot be read ({error.strerror})", path) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
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
        what = error.msg[:1].lower() + error.msg[1:]
        raise LocatedValue(None, path, error.lineno, error.colno).error(what) from None
    except (RecursionError, ValueError):
        raise _error("is nested too deeply, or holds a number too long", path) from None
    return _JsonReader(text, path).read()


class _JsonReader:
    """Reads JSON whose syntax has been checked, token by token."""

    def __init__(self, text: str, path: Path) -> None:
        self.path = path
        self.tokens = JSON_TOKEN.finditer(text)
        self.line_starts = [0, *(n + 1 for n, char in enumerate(text) if char == "\n")]

    def read(self, depth: int = 0) -> LocatedValue:
        """The value that begins at the next token."""
        return self._value(next(self.tokens), depth)

    def _value(self, token: re.Match[str], depth: int) -> LocatedValue:
        if depth > MAX_DEPTH:
            raise _error("is nested too deeply", self.path)
        value: Any
        if token[0] == "{":
            value = self._object(depth + 1)
        elif token[0] == "[":
            value = [self._value(first, depth + 1) for first in self._items("]")]
        else:
            value = json.loads(token[0])
        line = bisect_right(self.line_starts, token.start())
        return LocatedValue(value, self.path, line, token.start() - self.line_starts[line - 1] + 1)

    def _object(self, depth: int) -> dict[str, LocatedValue]:
        table: dict[str, LocatedValue] = {}
        for token in self._items("}"):
            key = json.loads(token[0])
            next(self.tokens)  # the colon
            value = self.read(depth)
            if key in table:
                raise value.error(f"{key!r} is given twice")
            table[key] = value
        return table

    def _items(self, closing: str) -> Iterator[re.Match[str]]:
        """The first token of each item up to the closing bracket; the caller reads the others."""
        while (token := next(self.tokens))[0] != closing:
            if token[0] != ",":
                yield token


def _parse_csv(text: str, path: Path) -> LocatedValue:
    rows = []
    # Spreadsheets in many locales separate cells by semicolons, and write 0,5.
    separator = next((sign for sign in ";\t" if sign in text), ",")
    lines = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
    try:
        for row in lines:
            while row and not row[-1].strip():  # spreadsheets leave them at the end of a line
                row.pop()
            if row:
                cells = [
                    _cell(cell.strip(), path, lines.line_num, number, has_comma=separator != ",")
                    for number, cell in enumerate(row, start=1)
                ]
                rows.append(LocatedValue(cells, path, lines.line_num, 1))
    except csv.Error as error:
        raise LocatedValue(None, path, lines.line_num, 1).error(str(error)) from None
    return LocatedValue(rows, path, 1, 1)


def _cell(text: str, path: Path, line: int, column: int, *, has_comma: bool) -> LocatedValue:
    """`has_comma`: numbers may have a decimal comma."""
    number = _number_or_word(text.replace(",", ".") if has_comma else text)
    value = text if isinstance(number, str) else number
    return LocatedValue(value, path, line, column, text)


def _number_or_word(cell: str) -> int | float | str:
    for parse in (int, float):
        try:
            return parse(cell)
        except ValueError:
            continue
    return cell


def named_blocks(rows: LocatedValue, names: Sequence[str]) -> LocatedValue:
    """A CSV file whose first line begins with one of the names, as a dict from name to rows.

    Anything else is returned unchanged. `head,514` is a name and its value on one line."""
    lines = rows.value if isinstance(rows.value, list) else []
    if not lines or not _starts_block(lines[0], names):
        return rows
    blocks: dict[str, LocatedValue] = {}
    block: list[LocatedValue] = []
    for row in lines:
        cells = row.value
        if _starts_block(row, names):
            if (name := cells[0].cell) in blocks:
                raise cells[0].error(f"{name!r} is given twice")
            block = []
            blocks[name] = replace(row, value=block)
            cells = cells[1:]
        if cells:
            block.append(replace(cells[0], value=cells, cell=None))
    return replace(rows, value=blocks)


def _starts_block(row: LocatedValue, names: Sequence[str]) -> bool:
    return isinstance(row.value, list) and bool(row.value) and row.value[0].cell in names
