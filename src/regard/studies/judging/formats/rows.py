"""Tables of rows: JSON lines, CSV, TSV and Parquet, compressed or not.

Nested objects become columns with dotted names, such as `doc.title`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.toml import flatten
from regard.data.readers.formats import read_records
from regard.data.readers.records import DropCounts, ReadOptions
from regard.studies.judging.item_table import ItemTable


def read_rows(path: Path) -> ItemTable:
    """Every row of the file; blank lines are skipped."""
    return ItemTable.of_rows(_rows(path), name=path.stem, source=str(path))


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        for record in read_records(path, ReadOptions(columns=None), DropCounts()):
            yield record.at.removeprefix(f"{path}, "), flatten(record)
    except UserError as problem:
        # A reader of training data proposes settings of a recipe.
        raise UserError(
            problem.what,
            topic="judge",
            where=problem.where,
            hint=_without_settings(problem.hint),
        ) from None


def _without_settings(hint: str) -> str:
    return "Correct it, or write the file again." if "data." in hint else hint
