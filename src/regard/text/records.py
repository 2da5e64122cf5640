"""Texts out of JSON lines and Parquet: records whose fields have names and types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.text.compression import compression_of, explain
from regard.text.lines import lines
from regard.text.reading import SKIP, Dropped, Reading, complain, find_column, no_such

PARQUET_ROWS = 256
HALF_PAIR = re.compile("[\ud800-\udfff]")  # JSON can escape one; UTF-8 cannot hold it


def read_json_lines(path: Path, reading: Reading, dropped: Dropped) -> Iterator[str]:
    """One JSON object a line; the text stands under the key `data.text` names."""
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            dropped.empty[str(path)] += 1
            continue
        try:
            text = _json_text(path, line, column=reading.column, at=f"line {number:,}")
        except UserError:
            if not reading.skip_bad_rows:
                raise
            dropped.bad[str(path)] += 1
            continue
        if text.strip():
            yield text
        else:
            dropped.empty[str(path)] += 1


def _json_text(path: Path, line: str, *, column: str, at: str) -> str:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as problem:
        why = str(problem)
        if isinstance(problem, json.JSONDecodeError):  # its "line 1" would be read as the file's
            why = f"{problem.msg} at column {problem.colno:,}"
        mend = f"{SKIP}, or write one whole object a line."
        raise complain(path, f"not valid JSON ({why})", at=at, mend=mend) from None
    if not isinstance(record, dict):
        raise complain(
            path,
            f"a JSON {_sort(record)} where an object is needed",
            at=at,
            mend=f'Write one object a line: {{"{column}": "…"}}.',
        )
    if column not in record:
        raise no_such(path, "key", list(record), column, at=at)
    text = record[column]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise complain(
            path,
            f"{column!r} holds a {_sort(text)}, not text",
            at=at,
            mend=f"{SKIP}, or set data.text to the key that holds the text.",
        )
    if HALF_PAIR.search(text):
        raise complain(path, "half a surrogate pair, which is no character", at=at, mend=f"{SKIP}.")
    return text


def _sort(value: Any) -> str:
    names = {dict: "object", list: "list", str: "string", bool: "true/false", type(None): "null"}
    return names.get(type(value), "number")


def read_parquet(path: Path, reading: Reading, dropped: Dropped) -> Iterator[str]:
    """One column of a Parquet file, a few hundred rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if compression_of(path):
        raise complain(
            path,
            "a Parquet file inside another compression cannot be streamed",
            mend="Decompress it: Parquet is compressed within.",
        )
    row = 0
    try:
        # Without pre-buffering and with a small buffer, a row group is never held whole.
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            schema = file.schema_arrow
            kind = schema.field(find_column(path, schema.names, reading.column)).type
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise complain(
                    path,
                    f"column {reading.column!r} holds {kind}, not text",
                    mend="Set data.text to the column that holds the text.",
                )
            for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=[reading.column]):
                for value in batch.column(0):
                    row += 1
                    text = value.as_py()
                    if text is not None and text.strip():
                        yield text
                    else:
                        dropped.empty[str(path)] += 1
    except UnicodeDecodeError:
        raise complain(path, "not valid UTF-8", at=f"row {row:,}", mend="Write it anew.") from None
    except (pa.ArrowInvalid, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise explain(problem, path) from problem
        raise complain(
            path,
            f"the Parquet file is cut short or damaged ({str(problem).splitlines()[0]})",
            mend="Copy or download it again.",
        ) from None
