"""A corpus of records: rows of tables, by the roles that a task gives to their columns.

    open_records(data, {"text": "review", "label": "stars"}).rows("dev")
        →  [{"text": "A fine film.", "label": "4"}, …], each with `.at` = "reviews.csv, row 3"

Cells of CSV and TSV are strings; values of JSON, Parquet and built-in sets keep their types.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from regard.core.errors import UserError
from regard.data.corpus import Data, find_split_sources
from regard.data.readers.records import TEXT_TYPES, Column, ColumnType, Record
from regard.data.split_corpus import SplitCorpus
from regard.data.splits import SPLITS, Split

__all__ = ["Column", "ColumnType", "Record", "RecordCorpus", "open_records"]


def open_records(
    data: Data,
    columns: Mapping[str, str],
    *,
    base: Path = Path(),
    types: Mapping[str, ColumnType] | None = None,
    optional: Collection[str] = (),
    key: str = "task",
    settings: Mapping[str, str] | None = None,
) -> RecordCorpus:
    """Find the sources of `data`; nothing is read yet.

    `columns` maps each role to a column name. `types` gives the type of a role's values; by default
    the first role is a text and the others any value. An `optional` column may be missing, in the
    file or in a row. Errors name the setting of a column: `key`.role, or what `settings` says.
    """
    column_types: dict[str, ColumnType] = {next(iter(columns)): "text", **(types or {})}
    names = {role: f"{key}.{role}" for role in columns} | dict(settings or {})
    by_role = {
        role: Column(name, names[role], column_types.get(role, "value"), role in optional)
        for role, name in columns.items()
    }
    return RecordCorpus(data, find_split_sources(data, by_role, base=base), columns=by_role)


@dataclass
class RecordCorpus(SplitCorpus):
    """Records in three splits, read once and held in memory."""

    columns: Mapping[str, Column] = field(kw_only=True)
    "The columns that are read, by role."

    @property
    def text_roles(self) -> Sequence[str]:
        texts = [role for role, column in self.columns.items() if column.type in TEXT_TYPES]
        return texts or list(self.columns)

    def rows(self, split: Split) -> list[Record]:
        """The records of one split, in the order of the sources; an empty split is an error."""
        rows = self._rows[split]
        if not rows:
            total = sum(map(len, self._rows.values()))
            raise UserError(
                f"none of {total:,} rows fell into {split}",
                topic="data",
                where=self.name,
                hint=f"Give data.{split} a larger fraction or its own file, or give more rows.",
            )
        return rows

    def all_records(self) -> list[Record]:
        """The records of all splits, in the order of the sources."""
        return [record for _, record in self._records_with_split]

    @cached_property
    def fingerprints(self) -> dict[Split, str]:
        """SHA-256 of each split's rows, in order: equal fingerprints mean the same items."""
        return {split: _fingerprint(rows) for split, rows in self._rows.items()}

    @cached_property
    def _records_with_split(self) -> list[tuple[Split, Record]]:
        return list(self.stream())

    @cached_property
    def _rows(self) -> dict[Split, list[Record]]:
        rows: dict[Split, list[Record]] = {split: [] for split in SPLITS}
        for split, record in self._records_with_split:
            rows[split].append(record)
        return rows


def _fingerprint(rows: Sequence[Record]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        line = json.dumps(row, sort_keys=True, ensure_ascii=False)
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
