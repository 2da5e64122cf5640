"""What generated sets share: lists of words, and assignment to splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")
Label = TypeVar("Label", bound=str)


def word_list(words: str) -> tuple[str, ...]:
    """The words of a text; lists are easier to read without quotes."""
    return tuple(words.split())


def assign_splits(
    items: Sequence[Item], sizes: Mapping[Label, int], random: Random
) -> Iterator[tuple[Label, Item]]:
    """Each item with a split, shuffled, in these numbers; the first rows hold all splits."""
    labels = [label for label, size in sizes.items() for _ in range(size)]
    random.shuffle(labels)
    yield from zip(labels, items, strict=True)
