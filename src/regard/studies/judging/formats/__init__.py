"""Files of items in every format that other tools write, read into `ItemTable`s."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.core.errors import UserError
from regard.data.readers.formats import is_known_format
from regard.studies.judging.formats.rows import read_rows
from regard.studies.judging.item_table import ItemTable

Reader = Callable[[Path], ItemTable]
READERS: dict[str, Reader] = {}
"By suffix, of formats that are no table of rows."
READABLE = "JSON lines, CSV, TSV or Parquet"


def read_item_file(path: Path) -> ItemTable:
    """The items of one file; the suffix decides the format."""
    reader = READERS.get(path.suffix.lower(), read_rows)
    if path.is_dir() or (reader is read_rows and not is_known_format(path)):
        what = "a folder" if path.is_dir() else "not a file of items"
        raise UserError(what, topic="judge", where=str(path), hint=f"Give a file: {READABLE}.")
    table = reader(path)
    if not len(table):
        raise table.error("no items", hint="Give a file with one row for each item.")
    return table
