"""JSON documents: one value over a whole .json file, where JSON lines have an object on each line.

[{"text": …}, …]                     a list of rows
{"data": [{"text": …}, …]}           an object with one list of rows, or SQuAD's layout
{"text": {"0": …, "1": …}, …}        columns by number, as pandas writes a data frame
{"columns": […], "data": [[…], …]}   the same with orient="split"
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.untrusted import parse_json
from regard.data.readers.compression import file_compression
from regard.data.readers.lines import read_lines

LIST_START = re.compile(r"\[\s*(\{|$)")


def is_list_document(path: Path) -> bool:
    """Whether a .json file begins as a list of objects does."""
    return _is_document_name(path) and LIST_START.match(_first_line(path)) is not None


def json_object(path: Path) -> Mapping[str, Any] | None:
    """The object that a whole .json file is. None if it is something else: another value, objects
    on several lines, or not valid JSON, which the reader of JSON lines reports."""
    if not _is_document_name(path) or not _first_line(path).startswith("{"):
        return None
    lines = filter(str.strip, read_lines(path))
    first = next(lines)
    try:
        found = parse_json(first)
    except ValueError:
        try:
            found = parse_json("\n".join([first, *lines]))
        except ValueError:
            return None
    is_whole = next(lines, None) is None
    return found if is_whole and isinstance(found, dict) else None


def rows_of_document(document: Mapping[str, Any] | None) -> Sequence[Any] | None:
    """The rows of an object that is a table; None if it is one row of JSON lines."""
    if not document:
        return None
    lists: list[list[Any]] = [one for one in document.values() if _is_list_of_objects(one)]
    if len(lists) == 1:
        return lists[0]
    if {"columns", "data"} <= document.keys() <= {"columns", "data", "index"}:
        return _rows_of_lists(document["columns"], document["data"])
    columns = list(document.values())
    if not all(isinstance(column, dict) and column for column in columns):
        return None
    numbers = list(columns[0])
    if not all(map(str.isdecimal, numbers)) or any(list(one) != numbers for one in columns):
        return None
    return [{name: document[name][number] for name in document} for number in numbers]


def _rows_of_lists(names: Any, rows: Any) -> Sequence[Any] | None:
    if not isinstance(names, list) or not isinstance(rows, list):
        return None
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        return None
    return [dict(zip(map(str, names), row, strict=True)) for row in rows]


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(v, dict) for v in value)


def _is_document_name(path: Path) -> bool:
    plain = path.with_suffix("") if file_compression(path) else path
    return plain.suffix.lower() == ".json"


def _first_line(path: Path) -> str:
    return next((line for line in read_lines(path) if line.strip()), "").lstrip()
