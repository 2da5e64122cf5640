"""Group a stream by size, so that large and small items are processed a bounded amount at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def grouped_by_size(
    items: Iterable[Item], size: Callable[[Item], int], *, total: int
) -> Iterator[list[Item]]:
    """Consecutive items, until their sizes sum to `total` or more; the last group may be less."""
    group: list[Item] = []
    so_far = 0
    for item in items:
        group.append(item)
        so_far += size(item)
        if so_far >= total:
            yield group
            group, so_far = [], 0
    if group:
        yield group
