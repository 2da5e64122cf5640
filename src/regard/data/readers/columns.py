"""Detect the text columns of a table from its first rows."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from regard.data.readers.formats import DropCounts, ReadOptions, file_format, read_records

SAMPLED_ROWS = 200


def text_columns(path: Path) -> dict[str, float]:
    """Columns of text with their mean length in characters, longest first.

    Plain text has none. Rows that cannot be read are skipped; reading the file reports them."""
    if file_format(path) == "txt":
        return {}
    lengths: dict[str, list[int]] = {}
    all_columns = ReadOptions(columns=None, skip_bad_rows=True)
    for record in islice(read_records(path, all_columns, DropCounts()), SAMPLED_ROWS):
        for name, value in record.items():
            if isinstance(value, str) and not _is_number(value):
                lengths.setdefault(name, []).append(len(value))
    means = {name: sum(found) / len(found) for name, found in lengths.items()}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
