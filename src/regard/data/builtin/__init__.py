"""Built-in data sets, available offline: each file has a function that yields its rows.

    @BUILTIN.add("opinions", generated=True, columns=("text", "label"))
    def opinions() -> Iterator[Row]: ...

`generated` marks synthetic text; every report mentions it. A row is a dict with `columns` as keys
and, if the set defines them, `split` ("train", "dev" or "test") and `group` (rows of one group stay
in the same split). A set without `columns` is plain text: its rows have `text`. `files` returns the
files that a set is read from, its own source file included: they identify it, else its rows do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

from regard.core.catalog import Catalog, Entry
from regard.core.errors import UserError

BUILTIN = Catalog(
    "corpus", home="regard.data.builtin", properties=("generated", "columns", "files")
)

Row = dict[str, Any]
"One record: its columns and, if the set defines them, `split` and `group`."


def read_rows(entry: Entry) -> Iterable[Row]:
    """The rows of a set. Those of regard's own are held in memory: every pass needs them, and they
    are few. One in the user's own file may be of any size, so each pass calls its function."""
    if entry.part.__module__.startswith(f"{__name__}."):
        return _cached_rows(entry.part)
    return map(partial(_check_row, entry), entry.part())


@cache
def _cached_rows(part: Callable[[], Iterable[Row]]) -> tuple[Row, ...]:
    return tuple(part())


def _check_row(entry: Entry, row: object) -> Row:
    if isinstance(row, dict):
        return row
    raise UserError(
        f"yields a {type(row).__name__}, not a dict",
        topic="data",
        where=f"{entry.name} ({entry.source})",
        hint='Yield a dict for each row, such as {"text": "…"}.',
    )


def content_identity(entry: Entry) -> tuple[int, str]:
    """Size and SHA-256 of what a set is made from, so that a change leads to a new token cache."""
    digest = hashlib.sha256()
    size = 0
    for piece in _pieces(entry):
        digest.update(piece)
        size += len(piece)
    return size, digest.hexdigest()


def _pieces(entry: Entry) -> Iterator[bytes]:
    """A generated set is a function of its code and a seed: with its rows, a changed template,
    seed or random generator never passes for the old set."""
    if "files" in entry.properties:
        return (file.read_bytes() for file in entry.properties["files"]())
    return (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in read_rows(entry))
