"""What generated sets share: who they are by what they say, and how they are cut into parts.

A generated set is a function of its code and of a seed in its file. Its identity is the SHA-256 of
the rows themselves, so a changed template, seed or random generator never passes for the old set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

Row = dict[str, Any]
"One record: its columns, and where the set has them `part` and `group`."
Item = TypeVar("Item")
Part = TypeVar("Part", bound=str)


def listed(words: str) -> tuple[str, ...]:
    """The words of a text, for lists that are easier to read without quotes."""
    return tuple(words.split())


def identity_of(name: str, rows: Callable[[], Iterable[Any]]) -> Callable[[], tuple[str, int, str]]:
    """What `BUILTIN.add(identity=…)` takes: (name, size, SHA-256) over the rows in their order."""

    def identity() -> tuple[str, int, str]:
        digest = hashlib.sha256()
        size = 0
        for row in rows():
            line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
            digest.update(line)
            size += len(line)
        return name, size, digest.hexdigest()

    return identity


def parted(
    items: Sequence[Item], sizes: Mapping[Part, int], random: Random
) -> Iterator[tuple[Part, Item]]:
    """Each item with a part, at random but in these numbers: the first few rows hold all parts."""
    parts = [part for part, size in sizes.items() for _ in range(size)]
    random.shuffle(parts)
    yield from zip(parts, items, strict=True)
