"""Per-item statistics of every seed of a method, and scores as functions of their sums.

A score is a function of sums over items, as perplexity exp(ΣL / ΣT) is, so leaving one item out
costs one subtraction. Items of a group are left out together. Two methods compare only on the same
seeds, items and groups.

Shapes: s seeds, c statistics, n items, u units: groups where items have them, else the items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError
from regard.evaluation.statistics.item_groups import GroupNumbers, sum_by_group

Values: TypeAlias = NDArray[np.float64]

ScoreFunction: TypeAlias = Callable[[Values], Values]
"Sums of statistics over items (c, …) to scores (…)."


def ratio(sums: Values) -> Values:
    """Ratio of the first two sums: a mean, where the second statistic is 1 for every item."""
    return np.asarray(sums[0] / sums[1])


def perplexity(sums: Values) -> Values:
    """exp(ΣL / ΣT) of the first two sums, in the order of `Losses.statistics`."""
    return np.asarray(np.exp(sums[0] / sums[1]))


@dataclass(frozen=True, kw_only=True, eq=False)
class SeedTables:
    """Per-item statistics of one method, one table per seed."""

    variant: str
    seeds: tuple[int, ...]
    statistics: Values
    "(s, c, n), in the order of the seeds."
    splits: tuple[str, ...]
    "For each seed, name and fingerprint of the items it was evaluated on, as in dev:77abf00d."
    items: str = "documents"
    "What n counts, in the plural."
    groups: GroupNumbers | None = None
    "The group of each item, as `group_numbers` gives it; None where every item stands alone."

    def __post_init__(self) -> None:
        if self.statistics.ndim != 3 or 0 in self.statistics.shape:
            raise ValueError(f"statistics must be (seeds, c, items), not {self.statistics.shape}")
        if not len(self.seeds) == len(self.splits) == len(self.statistics):
            raise ValueError(
                f"{len(self.statistics)} tables, {len(self.seeds)} seeds, {len(self.splits)} splits"
            )
        if self.groups is not None and self.groups.shape != self.statistics.shape[-1:]:
            raise ValueError(f"{self.groups.shape} groups of {self.statistics.shape[-1]} items")
        if len(set(self.seeds)) < len(self.seeds):
            raise self._error(
                f"a seed occurs twice in {_join(self.seeds)}",
                hint="Give one table per seed.",
            )
        for seed, split, table in zip(self.seeds, self.splits, self.statistics, strict=True):
            if split != self.splits[0]:
                raise self._error(
                    f"seed {self.seeds[0]} was evaluated on {self.splits[0]}, "
                    f"seed {seed} on {split}",
                    hint="Evaluate every seed on the same items.",
                )
            if not np.isfinite(table).all():
                item = int((~np.isfinite(table)).any(axis=0).argmax()) + 1
                raise self._error(
                    f"seed {seed}: {self.items.removesuffix('s')} {item:,} has a statistic that is "
                    "not a finite number",
                    hint="That training run diverged: fix it, or leave the seed out of all "
                    "variants.",
                )

    def select(self, seeds: Sequence[int]) -> SeedTables:
        """The tables of these seeds, in this order."""
        indices = [self.seeds.index(seed) for seed in seeds]
        return replace(
            self,
            seeds=tuple(seeds),
            statistics=self.statistics[indices],
            splits=tuple(self.splits[index] for index in indices),
        )

    @property
    def n(self) -> int:
        return int(self.statistics.shape[-1])

    def leave_one_out(self, score_function: ScoreFunction) -> tuple[Values, Values]:
        """The score of each seed (s), and with each unit left out (s, u)."""
        statistics = np.moveaxis(sum_by_group(self.statistics, self.groups), 1, 0)
        sums = statistics.sum(axis=-1)
        # Overflow and division by zero are reported below.
        with np.errstate(all="ignore"):
            full = score_function(sums)
            left_out = (
                score_function(sums[..., None] - statistics) if statistics.shape[-1] > 1 else None
            )
        if full.shape != sums.shape[1:]:
            raise ValueError(f"a score function of {sums.shape} sums gave {full.shape} scores")
        unit = "item" if self.groups is None else "group"
        for condition, scores in (("", full), (f" with one {unit} left out", left_out)):
            if scores is not None and not np.isfinite(scores).all():
                bad = (~np.isfinite(scores)).reshape(len(scores), -1).any(1)
                raise self._error(
                    f"seed {self.seeds[int(bad.argmax())]}: the compared score is not a finite "
                    f"number{condition}",
                    hint="No difference can be computed: look for a training run that diverged, "
                    "or evaluate more items.",
                )
        return full, full[:, None] if left_out is None else left_out

    def _error(self, what: str, *, hint: str) -> UserError:
        return UserError(what, topic="comparison", where=self.variant, hint=hint)


def check_comparable(a: SeedTables, b: SeedTables) -> None:
    """Raise where tables cannot be paired: different items or seeds."""
    between = f"{a.variant} and {b.variant}"
    if a.splits[0] != b.splits[0] or a.statistics.shape[-1] != b.statistics.shape[-1]:
        counts = [
            f"{tables.splits[0]} ({tables.statistics.shape[-1]:,} {tables.items})"
            for tables in (a, b)
        ]
        raise UserError(
            f"{a.variant} was evaluated on {counts[0]}, {b.variant} on {counts[1]}",
            topic="comparison",
            where=between,
            hint="Scores on different items are not compared: evaluate both on one split.",
        )
    if not np.array_equal(a.groups, b.groups):  # type: ignore[arg-type]
        raise UserError(
            f"the {a.items} of {a.variant} are grouped otherwise than those of {b.variant}",
            topic="comparison",
            where=between,
            hint="Evaluate both with the same data.group.",
        )
    if a.seeds != b.seeds:
        shared = [seed for seed in a.seeds if seed in b.seeds]
        raise UserError(
            f"{a.variant} has seeds {_join(a.seeds)}, {b.variant} has {_join(b.seeds)}",
            topic="comparison",
            where=between,
            hint=f"Compare on the seeds that both have: {_join(shared)}."
            if shared
            else "Train both with the same seeds.",
        )


def _join(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
