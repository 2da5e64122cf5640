"""Built-in data sets, available offline: each file has a function that yields its rows.

    @BUILTIN.add("opinions", generated=True, columns=("text", "label"))
    def opinions() -> Iterator[Row]: ...

`generated` marks synthetic text; every report mentions it. A row is a dict with `columns` as keys
and, if the set defines them, `split` ("train", "dev" or "test") and `group` (rows of one group stay
in the same split, and scores vary over groups). A set without `columns` is plain text: its rows
have `text`. `files` are the files that a set is read from, its own source file included, or a
function that returns them: they identify it, else its rows do, which then hold only what JSON has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from regard.core.catalog import Catalog, Entry
from regard.core.errors import UserError

BUILTIN = Catalog(
    "corpus",
    home="regard.data.builtin",
    required=("generated",),
    optional=("columns", "files"),
)
SPLITS = ("train", "dev", "test")

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
    def error(what: str, hint: str) -> UserError:
        return UserError(what, topic="data", where=f"{entry.name} ({entry.source})", hint=hint)

    if not isinstance(row, dict):
        what = f"yields a {type(row).__name__}, not a dict"
        raise error(what, 'Yield a dict for each row, such as {"text": "…"}.')
    if row.get("split", "train") not in SPLITS:
        raise error(f"a row has split {row['split']!r}", f"Write {', '.join(SPLITS)}, or no split.")
    if "columns" not in entry.properties and "text" not in row:
        what = f"a row has no text, but {', '.join(map(str, row)) or 'nothing'}"
        raise error(what, 'Yield {"text": "…"}, or declare columns=("…", …).')
    return row


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
        files = entry.properties["files"]
        return (Path(file).read_bytes() for file in (files() if callable(files) else files))
    return (_encode(entry, row) for row in read_rows(entry))


def _encode(entry: Entry, row: Row) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except (TypeError, ValueError) as problem:
        raise UserError(
            f"a row cannot be written as JSON ({problem}), so it does not identify the set",
            topic="data",
            where=f"{entry.name} ({entry.source})",
            hint="Yield str, int, float, bool, list and dict, or declare files=[…].",
        ) from None
