"""The variants a sweep makes: every combination of the values it lists, or some drawn by seed.

    [grid]                              [random]
    "train.lr" = [1e-3, 3e-3]           trials = 8
    "model.width" = [32, 48]            values = { "train.lr" = […], "model.width" = […] }

A combination is named by what it changes, `lr=0.001,width=32`, which is also its folder's name.
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
    """Combinations drawn by seed instead of all of them."""

    trials: int = Field(ge=1)
    "How many combinations are drawn."
    seed: int = Field(default=0, ge=0)
    "Another seed draws others."
    values: dict[str, tuple[Any, ...]]
    "The values of each dotted key."


def combinations(values: Values) -> list[dict[str, Any]]:
    """Every choice of one value a key; none where there is no key."""
    if not values:
        return []
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


def swept(grid: Values, drawn: RandomSweep | None) -> dict[str, dict[str, Any]]:
    """The changes of each variant that a sweep makes, by its name."""
    made = combinations(grid)
    if drawn is not None:
        everything = combinations(drawn.values)
        made += random.Random(drawn.seed).sample(everything, min(drawn.trials, len(everything)))
    named: dict[str, dict[str, Any]] = {}
    for changes in made:
        name = said(changes)
        if named.setdefault(name, changes) != changes:
            raise UserError(
                f"two combinations of the sweep would be called {name}: {named[name]} and "
                f"{changes}",
                topic="study",
                hint="Write them as [variants.NAME] each.",
            )
    return named


def said(changes: Mapping[str, Any]) -> str:
    """`lr=0.001,width=64`: values by the last part of their key, fit for a folder's name."""
    return ",".join(f"{key.rpartition('.')[2]}={_short(value)}" for key, value in changes.items())


def _short(value: Any) -> str:
    """A table by its kind first: `soft-masked+penalty=3.0`."""
    if isinstance(value, Mapping):
        rest = [f"{key}={_short(one)}" for key, one in value.items() if key != "kind"]
        return "+".join([str(value["kind"])] * ("kind" in value) + rest)
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", str(value)).strip("-") or "none"
