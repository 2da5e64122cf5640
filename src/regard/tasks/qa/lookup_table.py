"""Look up a subject in a user's table: CSV, TSV, JSON lines, Parquet or SQLite.

Keys that equal the subject exactly win; without one, keys that differ only in case and white space
match. A subject with several values is ambiguous: all of them are returned.
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

SQLITE_MAGIC = b"SQLite format 3\0"
Pairs = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class LookupTable:
    """A file of keys and values; the columns need no names where the table has only two."""

    file: Path
    key: str | None = None
    value: str | None = None

    def check(self) -> None:
        """Refuse an unusable table, even if no question will need it."""
        next(self._pairs(), None)

    def look_up(self, subject: str) -> list[str]:
        """The distinct values of a subject; empty where the table does not have it."""
        exact: dict[str, None] = {}
        normalised: dict[str, None] = {}
        for key, value in self._pairs():
            if value and key == subject:
                exact[value] = None
            elif value and _normalise(key) == _normalise(subject):
                normalised[value] = None
        return list(exact or normalised)

    def _pairs(self) -> Pairs:
        if not self.file.is_file():
            raise self._error("there is no such file", hint="Check the path after --table.")
        with self.file.open("rb") as opened:
            is_database = opened.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
        return self._database_pairs() if is_database else self._file_pairs()

    def _file_pairs(self) -> Pairs:
        rows = read_records(self.file, ReadOptions(columns=None), DropCounts())
        first = next(rows, None)
        if first is None:
            raise self._error("the table is empty")
        key, value = self._columns(list(first))
        for row in chain([first], rows):
            yield _text(row.get(key)), _text(row.get(value))

    def _database_pairs(self) -> Pairs:
        address = f"{self.file.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True)) as database:
                name, columns = self._table(_tables(database))
                key, value = self._columns(columns)
                query = f"SELECT {_quoted(key)}, {_quoted(value)} FROM {_quoted(name)}"
                for row in database.execute(query):
                    yield _text(row[0]), _text(row[1])
        except sqlite3.Error as problem:
            raise self._error(f"the database cannot be read ({problem})") from None

    def _table(self, tables: dict[str, list[str]]) -> tuple[str, list[str]]:
        """The only table of a database that has the requested columns."""
        requested = {name for name in (self.key, self.value) if name is not None}
        matching = {name: columns for name, columns in tables.items() if requested <= set(columns)}
        candidates = matching or tables
        if len(candidates) == 1:
            return next(iter(candidates.items()))
        if not tables:
            raise self._error("the database has no table")
        if not matching:
            columns = sorted({column for each in tables.values() for column in each})
            missing = next((name for name in requested if name not in columns), None)
            if missing is not None:
                option = "--key" if missing == self.key else "--value"
                raise self._no_column(missing, columns, option)
        raise self._error(
            f"tables {', '.join(candidates)} could be meant",
            hint="Name with --key and --value columns that only one of them has.",
        )

    def _columns(self, names: Sequence[str]) -> tuple[str, str]:
        """The columns of keys and values, among the table's columns `names`."""
        for column, option in ((self.key, "--key"), (self.value, "--value")):
            if column is not None and column not in names:
                raise self._no_column(column, names, option)
        others = [name for name in names if name not in (self.key, self.value)]
        if (self.key is None or self.value is None) and len(names) != 2:
            raise self._error(
                f"which of its columns {', '.join(map(repr, names))} are meant?",
                hint="Name them: --key NAME --value NAME.",
            )
        key = self.key if self.key is not None else others.pop(0)
        return key, self.value if self.value is not None else others.pop(0)

    def _no_column(self, column: str, names: Sequence[str], option: str) -> UserError:
        return self._error(
            f"{option}: there is no column {column!r}{did_you_mean(column, names)}",
            hint=f"Its columns are {', '.join(map(repr, names))}.",
        )

    def _error(self, what: str, *, hint: str = "") -> UserError:
        return UserError(what, topic="table", where=str(self.file), hint=hint)


def _tables(database: sqlite3.Connection) -> dict[str, list[str]]:
    """Columns of each table and view, without SQLite's internal tables."""
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


def _normalise(text: str) -> str:
    return " ".join(text.casefold().split())


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
