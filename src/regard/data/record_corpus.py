"""A corpus of records: the rows of the person's tables by the roles a task gives its columns.

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
from regard.data.corpus import Data, find_parts
from regard.data.readers.reading import TEXTS, Column, Holds, Record
from regard.data.split_corpus import SplitCorpus
from regard.data.splits import SPLITS, Split

__all__ = ["Column", "Holds", "Record", "RecordCorpus", "open_records"]


def open_records(
    data: Data,
    columns: Mapping[str, str],
    *,
    base: Path = Path(),
    holds: Mapping[str, Holds] | None = None,
    optional: Collection[str] = (),
    key: str = "task",
    settings: Mapping[str, str] | None = None,
) -> RecordCorpus:
    """Find what `data` names; nothing is read yet.

    `columns` gives the person's column for each role. `holds` says what each role takes: the
    first is a text and the others any value, unless it says otherwise. A column that is `optional`
    may be missing, in the file or in a row. `key` is the table of settings that names the columns,
    each by its role; `settings` says where a column is named otherwise.
    """
    sorts: dict[str, Holds] = {next(iter(columns)): "text", **(holds or {})}
    named = {role: f"{key}.{role}" for role in columns} | dict(settings or {})
    asked = {
        role: Column(name, named[role], sorts.get(role, "value"), role in optional)
        for role, name in columns.items()
    }
    return RecordCorpus(data, find_parts(data, asked, base=base), columns=asked)


@dataclass
class RecordCorpus(SplitCorpus):
    """Records in three parts, read once and held."""

    columns: Mapping[str, Column] = field(kw_only=True)
    "What is read, by role."

    @property
    def text_roles(self) -> Sequence[str]:
        texts = [role for role, column in self.columns.items() if column.holds in TEXTS]
        return texts or list(self.columns)

    def rows(self, part: Split) -> list[Record]:
        """The records of one part, in the order of their sources; there is at least one."""
        rows = self._rows[part]
        if not rows:
            total = sum(map(len, self._rows.values()))
            raise UserError(
                f"none of {total:,} rows fell into {part}",
                topic="data",
                where=self.name,
                hint=f"Give data.{part} a larger share or a file of its own, or give more rows.",
            )
        return rows

    def every(self) -> list[Record]:
        """All records in the order in which they stand in their sources, whatever their part."""
        return [record for _, record in self._parted]

    @cached_property
    def fingerprints(self) -> dict[Split, str]:
        """Of each part's rows, in order: reports that show the same one measured the same items."""
        return {part: _fingerprint(rows) for part, rows in self._rows.items()}

    @cached_property
    def _parted(self) -> list[tuple[Split, Record]]:
        return list(self.stream())

    @cached_property
    def _rows(self) -> dict[Split, list[Record]]:
        rows: dict[Split, list[Record]] = {part: [] for part in SPLITS}
        for part, record in self._parted:
            rows[part].append(record)
        return rows


def _fingerprint(rows: Sequence[Record]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        line = json.dumps(row, sort_keys=True, ensure_ascii=False)
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
