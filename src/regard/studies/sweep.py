"""Variants of a sweep: the full grid of the listed values, or random combinations.

    [grid]                              [random]
    "train.lr" = [1e-3, 3e-3]           trials = 8
    "model.width" = [32, 48]            values = { "train.lr" = […], "model.width" = […] }

A combination is named after its values, `lr=0.001,width=32`, which is also its folder's name.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from regard.core.errors import UserError
from regard.core.settings import Settings

Values = Mapping[str, Sequence[Any]]
"By dotted key."


class RandomSweep(Settings):
    """Random search: some combinations instead of all of them."""

    trials: int = Field(ge=1)
    "Number of combinations drawn."
    seed: int = Field(default=0, ge=0)
    "Seed of the draw."
    values: dict[str, tuple[Any, ...]]
    "The values of each dotted key."


def combinations(values: Values) -> list[dict[str, Any]]:
    """The Cartesian product of the values; empty without keys."""
    if not values:
        return []
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def sweep_variants(grid: Values, random_sweep: RandomSweep | None) -> dict[str, dict[str, Any]]:
    """The changes of each variant of a sweep, by variant name."""
    points = combinations(grid)
    if random_sweep is not None:
        every = combinations(random_sweep.values)
        trials = min(random_sweep.trials, len(every))
        points += random.Random(random_sweep.seed).sample(every, trials)
    variants: dict[str, dict[str, Any]] = {}
    for changes in points:
        name = format_changes(changes)
        if variants.setdefault(name, changes) != changes:
            raise UserError(
                f"two combinations of the sweep have the same name {name}: {variants[name]} and "
                f"{changes}",
                topic="study",
                hint="Write each as [variants.NAME].",
            )
    return variants


def format_changes(changes: Mapping[str, Any]) -> str:
    """`lr=0.001,width=64`: values by the last component of their keys, valid as a folder name."""
    return ",".join(f"{key.rpartition('.')[2]}={_format(value)}" for key, value in changes.items())


def _format(value: Any) -> str:
    """Tables start with their kind: `soft-masked+penalty=3.0`."""
    if isinstance(value, Mapping):
        rest = [f"{key}={_format(setting)}" for key, setting in value.items() if key != "kind"]
        return "+".join([str(value["kind"])] * ("kind" in value) + rest)
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", str(value)).strip("-") or "none"
