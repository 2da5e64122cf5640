"""Helpers of generated data sets: identity by content, and assignment to splits.

A generated set is a function of its code and a seed. Its identity is the SHA-256 of its rows, so a
changed template, seed or random generator never passes for the old set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

Row = dict[str, Any]
"One record: its columns and, if the set defines them, `split` and `group`."
Item = TypeVar("Item")
Label = TypeVar("Label", bound=str)


def word_list(words: str) -> tuple[str, ...]:
    """The words of a text; lists are easier to read without quotes."""
    return tuple(words.split())


def rows_identity(
    name: str, rows: Callable[[], Iterable[Any]]
) -> Callable[[], tuple[str, int, str]]:
    """For `BUILTIN.add(identity=…)`: (name, size, SHA-256) of the rows in order."""

    def identity() -> tuple[str, int, str]:
        digest = hashlib.sha256()
        size = 0
        for row in rows():
            line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
            digest.update(line)
            size += len(line)
        return name, size, digest.hexdigest()

    return identity


def assign_splits(
    items: Sequence[Item], sizes: Mapping[Label, int], random: Random
) -> Iterator[tuple[Label, Item]]:
    """Each item with a split, shuffled, in these numbers; the first rows hold all splits."""
    labels = [label for label, size in sizes.items() for _ in range(size)]
    random.shuffle(labels)
    yield from zip(labels, items, strict=True)
