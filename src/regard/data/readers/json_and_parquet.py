"""Readers of JSON lines and Parquet; values keep their types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.untrusted import parse_json
from regard.data.readers.compression import file_compression, read_error
from regard.data.readers.json_document import is_list_document, json_object, rows_of_document
from regard.data.readers.lines import read_lines
from regard.data.readers.records import (
    SKIP_HINT,
    RawRow,
    Record,
    RecordReader,
    json_type,
    missing_column_error,
)
from regard.data.readers.squad import read_squad, squad_articles

PARQUET_ROWS = 256
DOCUMENT_STARTS = ("[", "{", "[{")
"First lines of documents that are written over several."
LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can escape one; UTF-8 cannot encode it


def read_json(path: Path, reader: RecordReader) -> Iterator[Record]:
    """JSON lines, or a JSON document (`json_document.py`), which is held in memory as a whole."""
    document = json_object(path)
    articles = squad_articles(document)
    rows = rows_of_document(document)
    if articles is not None:
        yield from read_squad(articles, reader)
    elif rows is not None:
        yield from reader.records(_items(rows, reader, has_escapes=True))
    elif is_list_document(path):
        yield from reader.records(_json_list(path, reader))
    else:
        yield from reader.records(_json_lines(path, reader))


def _json_list(path: Path, reader: RecordReader) -> Iterator[RawRow]:
    text = "\n".join(read_lines(path))
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise reader.error(
            f"not valid JSON ({problem})", hint="Write it again, best one object per line."
        ) from None
    yield from _items(found, reader, has_escapes="\\u" in text)


def _items(found: Iterable[Any], reader: RecordReader, *, has_escapes: bool) -> Iterator[RawRow]:
    for number, values in enumerate(found, start=1):
        at = f"item {number:,}"
        try:
            by_role = _row_values(values, reader, at=at, has_escapes=has_escapes)
        except UserError as problem:
            reader.drop_bad(problem)
            continue
        yield RawRow(at, by_role)


def _json_lines(path: Path, reader: RecordReader) -> Iterator[RawRow]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            reader.drop_empty()
            continue
        at = f"line {number:,}"
        try:
            found = _parse_line(line, reader, at=at)
            values = _row_values(found, reader, at=at, has_escapes="\\u" in line)
        except UserError as problem:
            reader.drop_bad(problem)
            continue
        yield RawRow(at, values)


def _row_values(
    found: Any, reader: RecordReader, *, at: str, has_escapes: bool
) -> Mapping[str, Any]:
    """The values of one object by role; only an escape can be half a surrogate pair."""
    if not isinstance(found, dict):
        raise reader.error(
            f"a JSON {json_type(found)} where an object is needed",
            at=at,
            hint='Write one object per line: {"text": "…"}.',
        )
    values = _by_role(found, reader, at=at)
    if has_escapes and _has_lone_surrogate(values):
        what = "half a surrogate pair, which is not a character"
        raise reader.error(what, at=at, hint=f"{SKIP_HINT}.")
    return values


def _parse_line(line: str, reader: RecordReader, *, at: str) -> Any:
    try:
        found = parse_json(line)
    except ValueError as problem:
        why = str(problem)
        if isinstance(problem, json.JSONDecodeError):
            # Its own "line 1" would read like the file's line.
            why = f"{problem.msg} at column {problem.colno:,}"
        hint = f"{SKIP_HINT}, or write one whole object per line."
        if at == "line 1" and line.strip() in DOCUMENT_STARTS:
            why = "a document of several lines"
            hint = "Write one whole object per line, as jq -c '.[]' does with a list."
        raise reader.error(f"not valid JSON ({why})", at=at, hint=hint) from None
    return found


def _by_role(found: dict[str, Any], reader: RecordReader, *, at: str) -> Mapping[str, Any]:
    columns = reader.options.columns
    if columns is None:
        return found
    values = {role: _value(found, column.name) for role, column in columns.items()}
    for role, column in columns.items():
        if values[role] is _MISSING and not column.optional:
            raise missing_column_error(reader.name, "key", list(found), column, at=at)
    return {role: None if value is _MISSING else value for role, value in values.items()}


_MISSING = object()


def _value(found: dict[str, Any], name: str) -> Any:
    """The value of a key; `answers.text` is the key `text` of the object `answers`."""
    if name in found or "." not in name:
        return found.get(name, _MISSING)
    first, _, rest = name.partition(".")
    inner = found.get(first)
    return _value(inner, rest) if isinstance(inner, dict) else _MISSING


def _has_lone_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        return LONE_SURROGATE.search(value) is not None
    if isinstance(value, Mapping):
        return any(map(_has_lone_surrogate, value.values()))
    return isinstance(value, list) and any(map(_has_lone_surrogate, value))


def read_parquet(path: Path, reader: RecordReader) -> Iterator[Record]:
    """The requested columns, streamed in record batches."""
    if file_compression(path):
        raise reader.error(
            "a Parquet file inside another compression cannot be streamed",
            hint="Decompress it: Parquet compresses its own columns.",
        )
    yield from reader.records(_parquet_rows(path, reader))


def _parquet_rows(path: Path, reader: RecordReader) -> Iterator[RawRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        # Without pre-buffering and with a small buffer, a row group is never in memory as a whole.
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            names = reader.match_columns(file.schema_arrow.names)
            _check_text_columns(file.schema_arrow, reader)
            used = sorted(set(names.values()))
            for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=used):
                columns = {role: batch.column(name) for role, name in names.items()}
                for i in range(batch.num_rows):
                    row += 1
                    values = {role: column[i].as_py() for role, column in columns.items()}
                    yield RawRow(f"row {row:,}", values)
    except UnicodeDecodeError:
        what, at = "not valid UTF-8", f"row {row:,}"
        raise reader.error(what, at=at, hint="Write the file again.") from None
    except (pa.ArrowInvalid, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise read_error(problem, path) from problem
        raise reader.error(
            f"the Parquet file is truncated or damaged ({str(problem).splitlines()[0]})",
            hint="Copy or download it again.",
        ) from None


def _check_text_columns(schema: Any, reader: RecordReader) -> None:
    """Report a text column of another type once for the file, not at its first row."""
    import pyarrow as pa

    for column in (reader.options.columns or {}).values():
        if column.type != "text" or column.name not in schema.names:
            continue
        arrow_type = schema.field(column.name).type
        if pa.types.is_dictionary(arrow_type):
            arrow_type = arrow_type.value_type
        if not (pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type)):
            raise reader.error(
                f"column {column.name!r} holds {arrow_type}, not text",
                hint=f"Set {column.setting} to the column that holds the text.",
            )
