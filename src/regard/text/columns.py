"""Which columns a table has, and which of them reads like text: a look at its first rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.text.compression import compression_of
from regard.text.lines import lines
from regard.text.readers import format_of
from regard.text.reading import complain

ROWS_SEEN = 200


def text_columns(path: Path) -> dict[str, float]:
    """Columns that hold words, with their mean length in characters, longest first.

    Plain text has none. Rows that cannot be read are passed over: reading proper names them."""
    sizes: dict[str, list[int]] = {}
    for row in islice(_rows(path), ROWS_SEEN):
        for name, value in row.items():
            if isinstance(value, str) and not _is_number(value):
                sizes.setdefault(name, []).append(len(value))
    means = {name: sum(all_sizes) / len(all_sizes) for name, all_sizes in sizes.items()}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    match format_of(path):
        case "csv":
            yield from csv.DictReader(line + "\n" for line in lines(path))
        case "tsv":
            split = (line.split("\t") for line in lines(path))
            header = next(split, [])
            yield from (dict(zip(header, cells, strict=False)) for cells in split)
        case "jsonl":
            yield from _objects(path)
        case "parquet":
            yield from _parquet_rows(path)


def _objects(path: Path) -> Iterator[Mapping[str, Any]]:
    for line in lines(path):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if compression_of(path):
        return
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS_SEEN):
                yield from batch.to_pylist()
    except (pa.ArrowInvalid, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise _unreadable(path, reason) from None


def _unreadable(path: Path, reason: str) -> UserError:
    return complain(
        path,
        f"the Parquet file is cut short or damaged ({reason})",
        mend="Copy or download it again.",
    )


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
