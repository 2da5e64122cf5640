"""Values that nobody meant: what recipes, studies and configs are changed to."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

SCALARS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 10**6, 2**31, 2**63 - 1, -(2**63), True, False),
    *(0.0, -0.0, 0.5, 1e-300, 1e300, -1.5, float("inf"), float("nan")),
    *("", " ", "x", "dot", "../..", "/dev/null", "/dev/full", "~", "%s{0}", "a\nb", "\u202eabc"),
    *("pip:", "pip:numpy", "runs/none", "no.toml", "auto", "é" * 300, "'\"<script>", "-1", "1e-3"),
)
KEYS = ("kind", "family", "name", "lr", "corpus", "init_from", "", "a.b", "0", "é", "__class__")


def deep(levels: int, *, table: bool) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value} if table else [value]
    return value


def hostile(generator: random.Random) -> Any:
    kind = generator.randrange(12)
    if kind == 0:
        return [generator.choice(SCALARS) for _ in range(generator.randrange(4))]
    if kind == 1:
        return {generator.choice(KEYS) or "k": generator.choice(SCALARS)}
    if kind == 2:
        return deep(generator.choice((5, 70, 200)), table=generator.random() < 0.5)
    if kind == 3:
        return "x" * generator.choice((300, 5_000, 100_000))
    if kind == 4:
        return generator.randrange(10 ** generator.choice((3, 18)))
    return generator.choice(SCALARS)


def paths(table: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key in nested tables and lists."""
    inner = table.items() if isinstance(table, dict) else enumerate(table)
    for key, value in inner:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*above, key))


def mutate(table: dict[str, Any], generator: random.Random, *, changes: int) -> dict[str, Any]:
    """A copy with values replaced, removed, added, or moved to other keys."""
    changed = copy.deepcopy(table)
    for _ in range(changes):
        found = list(paths(changed))
        if not found:
            break
        path = generator.choice(found)
        inner: Any = changed
        for key in path[:-1]:
            inner = inner[key]
        action = generator.randrange(5)
        if action == 0:
            del inner[path[-1]]
        elif action == 1 and isinstance(inner, dict):
            inner[generator.choice(KEYS) or "k"] = hostile(generator)
        elif action == 2:
            other: Any = changed
            for key in generator.choice(found):
                if not isinstance(other, dict | list):
                    break
                try:
                    other = other[key]
                except (KeyError, IndexError, TypeError):
                    break
            inner[path[-1]] = copy.deepcopy(other) if other is not changed else 0
        else:
            inner[path[-1]] = hostile(generator)
    return changed
