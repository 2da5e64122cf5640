"""Which columns a table has, and which of them reads like text: a look at its first rows."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from regard.data.readers.formats import DropCounts, ReadOptions, format_of, read_records

ROWS_SEEN = 200


def text_columns(path: Path) -> dict[str, float]:
    """Columns that hold words, with their mean length in characters, longest first.

    Plain text has none. Rows that cannot be read are passed over: reading proper names them."""
    if format_of(path) == "txt":
        return {}
    sizes: dict[str, list[int]] = {}
    every = ReadOptions(columns=None, skip_bad_rows=True)
    for record in islice(read_records(path, every, DropCounts()), ROWS_SEEN):
        for name, value in record.items():
            if isinstance(value, str) and not _is_number(value):
                sizes.setdefault(name, []).append(len(value))
    means = {name: sum(all_sizes) / len(all_sizes) for name, all_sizes in sizes.items()}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
