"""Look a subject up in a table that a person gives: CSV, TSV, JSON lines, Parquet or SQLite.

The row whose key is the subject as it stands comes first; without one, case and spaces do not
count. A key that leads to several values decides nothing, and all of them are told.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from regard.core.errors import UserError, did_you_mean
from regard.data.readers.formats import DropCounts, ReadOptions, read_records

SQLITE_OPENING = b"SQLite format 3\0"
Pairs = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class LookupTable:
    """A file of keys and values; the columns may be left out where the table has only two."""

    file: Path
    key: str | None = None
    value: str | None = None

    def check(self) -> None:
        """Refuse a table that cannot be used, also where it will not be needed."""
        next(self._pairs(), None)

    def look_up(self, subject: str) -> list[str]:
        """The different values that stand beside a subject; none where it is not there."""
        exact: dict[str, None] = {}
        alike: dict[str, None] = {}
        for key, value in self._pairs():
            if value and key == subject:
                exact[value] = None
            elif value and _plain(key) == _plain(subject):
                alike[value] = None
        return list(exact or alike)

    def _pairs(self) -> Pairs:
        if not self.file.is_file():
            raise self._complaint("there is no such file", hint="Check the path after --table.")
        with self.file.open("rb") as opened:
            is_database = opened.read(len(SQLITE_OPENING)) == SQLITE_OPENING
        return self._database_pairs() if is_database else self._file_pairs()

    def _file_pairs(self) -> Pairs:
        rows = read_records(self.file, ReadOptions(columns=None), DropCounts())
        first = next(rows, None)
        if first is None:
            raise self._complaint("the table is empty")
        key, value = self._columns(list(first))
        for row in chain([first], rows):
            yield _written(row.get(key)), _written(row.get(value))

    def _database_pairs(self) -> Pairs:
        address = f"{self.file.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True)) as database:
                name, columns = self._table(_tables(database))
                key, value = self._columns(columns)
                query = f"SELECT {_quoted(key)}, {_quoted(value)} FROM {_quoted(name)}"
                for row in database.execute(query):
                    yield _written(row[0]), _written(row[1])
        except sqlite3.Error as problem:
            raise self._complaint(f"the database cannot be read ({problem})") from None

    def _table(self, tables: dict[str, list[str]]) -> tuple[str, list[str]]:
        """The one table of a database that has the columns asked for."""
        asked = {name for name in (self.key, self.value) if name is not None}
        fitting = {name: columns for name, columns in tables.items() if asked <= set(columns)}
        found = fitting or tables
        if len(found) == 1:
            return next(iter(found.items()))
        if not tables:
            raise self._complaint("the database has no table")
        if not fitting:
            columns = sorted({column for each in tables.values() for column in each})
            missing = next((name for name in asked if name not in columns), None)
            if missing is not None:
                option = "--key" if missing == self.key else "--value"
                raise self._no_column(missing, columns, option)
        raise self._complaint(
            f"tables {', '.join(found)} could be meant",
            hint="Name with --key and --value columns that only one of them has.",
        )

    def _columns(self, names: Sequence[str]) -> tuple[str, str]:
        """The two that are meant, of those there are."""
        for asked, option in ((self.key, "--key"), (self.value, "--value")):
            if asked is not None and asked not in names:
                raise self._no_column(asked, names, option)
        taken = {self.key, self.value}
        others = [name for name in names if name not in taken]
        if (self.key is None or self.value is None) and len(names) != 2:
            raise self._complaint(
                f"which of its columns {', '.join(map(repr, names))} are meant?",
                hint="Name them: --key NAME --value NAME.",
            )
        key = self.key if self.key is not None else others.pop(0)
        return key, self.value if self.value is not None else others.pop(0)

    def _no_column(self, asked: str, names: Sequence[str], option: str) -> UserError:
        return self._complaint(
            f"{option}: there is no column {asked!r}{did_you_mean(asked, names)}",
            hint=f"Its columns are {', '.join(map(repr, names))}.",
        )

    def _complaint(self, what: str, *, hint: str = "") -> UserError:
        return UserError(what, topic="table", where=str(self.file), hint=hint)


def _tables(database: sqlite3.Connection) -> dict[str, list[str]]:
    """Columns by table, views too; SQLite's own are left out."""
    names = database.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    )
    return {
        name: [row[1] for row in database.execute(f"PRAGMA table_info({_quoted(name)})")]
        for (name,) in names.fetchall()
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _written(value: Any) -> str:
    return "" if value is None else str(value).strip()
