"""Rows out of JSON lines and Parquet: fields that have names and types, which they keep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.data.readers.compression import compression_of, explain
from regard.data.readers.lines import lines
from regard.data.readers.reading import SKIP, RawRow, Record, RecordReader, no_such, sort_of
from regard.data.readers.squad import articles_of, read_squad

PARQUET_ROWS = 256
HALF_PAIR = re.compile("[\ud800-\udfff]")  # JSON can escape one; UTF-8 cannot hold it


def read_json(path: Path, visit: RecordReader) -> Iterator[Record]:
    """One object a line; or a whole file of questions as SQuAD has them."""
    articles = articles_of(path)
    if articles is None:
        yield from visit.records(_json_lines(path, visit))
    else:
        yield from read_squad(articles, visit)


def _json_lines(path: Path, visit: RecordReader) -> Iterator[RawRow]:
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            visit.empty()
            continue
        at = f"line {number:,}"
        try:
            values = _by_role(_object(line, visit, at=at), visit, at=at)
            if "\\u" in line and _has_half_pair(values):
                what = "half a surrogate pair, which is no character"
                raise visit.complain(what, at=at, hint=f"{SKIP}.")
        except UserError as problem:
            visit.bad(problem)
            continue
        yield RawRow(at, values)


def _object(line: str, visit: RecordReader, *, at: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as problem:
        why = str(problem)
        if isinstance(problem, json.JSONDecodeError):  # its "line 1" would be read as the file's
            why = f"{problem.msg} at column {problem.colno:,}"
        hint = f"{SKIP}, or write one whole object a line."
        raise visit.complain(f"not valid JSON ({why})", at=at, hint=hint) from None
    if not isinstance(found, dict):
        raise visit.complain(
            f"a JSON {sort_of(found)} where an object is needed",
            at=at,
            hint='Write one object a line: {"text": "…"}.',
        )
    return found


def _by_role(found: dict[str, Any], visit: RecordReader, *, at: str) -> Mapping[str, Any]:
    columns = visit.reading.columns
    if columns is None:
        return found
    for column in columns.values():
        if column.name not in found and not column.optional:
            raise no_such(visit.name, "key", list(found), column, at=at)
    return {role: found.get(column.name) for role, column in columns.items()}


def _has_half_pair(value: Any) -> bool:
    if isinstance(value, str):
        return HALF_PAIR.search(value) is not None
    if isinstance(value, Mapping):
        return any(map(_has_half_pair, value.values()))
    return isinstance(value, list) and any(map(_has_half_pair, value))


def read_parquet(path: Path, visit: RecordReader) -> Iterator[Record]:
    """The columns asked for, a few hundred rows at a time."""
    if compression_of(path):
        raise visit.complain(
            "a Parquet file inside another compression cannot be streamed",
            hint="Decompress it: Parquet is compressed within.",
        )
    yield from visit.records(_parquet_rows(path, visit))


def _parquet_rows(path: Path, visit: RecordReader) -> Iterator[RawRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        # Without pre-buffering and with a small buffer, a row group is never held whole.
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            names = visit.found(file.schema_arrow.names)
            _refuse_no_text(file.schema_arrow, visit)
            wanted = sorted(set(names.values()))
            for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=wanted):
                columns = {role: batch.column(name) for role, name in names.items()}
                for place in range(batch.num_rows):
                    row += 1
                    values = {role: column[place].as_py() for role, column in columns.items()}
                    yield RawRow(f"row {row:,}", values)
    except UnicodeDecodeError:
        what, at = "not valid UTF-8", f"row {row:,}"
        raise visit.complain(what, at=at, hint="Write it anew.") from None
    except (pa.ArrowInvalid, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise explain(problem, path) from problem
        raise visit.complain(
            f"the Parquet file is cut short or damaged ({str(problem).splitlines()[0]})",
            hint="Copy or download it again.",
        ) from None


def _refuse_no_text(schema: Any, visit: RecordReader) -> None:
    """A column of numbers is said once, for the file, not at its first row."""
    import pyarrow as pa

    for column in (visit.reading.columns or {}).values():
        if column.holds != "text" or column.name not in schema.names:
            continue
        kind = schema.field(column.name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise visit.complain(
                f"column {column.name!r} holds {kind}, not text",
                hint=f"Set {column.setting} to the column that holds the text.",
            )
