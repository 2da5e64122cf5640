"""What is compared: each seed's table of items, and statistics that are functions of its sums.

Sums over items come first, as in a perplexity exp(ΣL / ΣT), so leaving out one item costs one
subtraction. Tables are put side by side only where seeds and items are the same.

Shapes: s seeds, c columns, n items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError

Values: TypeAlias = NDArray[np.float64]

ScoreFunction: TypeAlias = Callable[[Values], Values]
"Sums of columns over items (c, …) to one value each (…)."


def ratio(sums: Values) -> Values:
    """First sum over second: a mean where the second column is all ones."""
    return np.asarray(sums[0] / sums[1])


def perplexity(sums: Values) -> Values:
    """exp(ΣL / ΣT) of the first two columns, in the order of `Losses.statistics`."""
    return np.asarray(np.exp(sums[0] / sums[1]))


@dataclass(frozen=True, kw_only=True, eq=False)
class SeedTables:
    """What one method's trained models made of the items, one table a seed."""

    variant: str
    seeds: tuple[int, ...]
    statistics: Values
    "(s, c, n), in the order of the seeds."
    splits: tuple[str, ...]
    "For each seed, name and fingerprint of the items it was measured on, as in dev:77abf00d."
    items: str = "documents"
    "What n counts, in the plural."

    def __post_init__(self) -> None:
        if self.statistics.ndim != 3 or 0 in self.statistics.shape:
            raise ValueError(f"columns are (seeds, columns, items), not {self.statistics.shape}")
        if not len(self.seeds) == len(self.splits) == len(self.statistics):
            raise ValueError(
                f"{len(self.statistics)} tables, {len(self.seeds)} seeds, {len(self.splits)} parts"
            )
        if len(set(self.seeds)) < len(self.seeds):
            raise self._error(
                f"a seed stands twice in {_listed(self.seeds)}",
                hint="One training counts once: give each seed one table.",
            )
        for seed, split, table in zip(self.seeds, self.splits, self.statistics, strict=True):
            if split != self.splits[0]:
                raise self._error(
                    f"seed {self.seeds[0]} was measured on {self.splits[0]}, seed {seed} on {split}",
                    hint="Measure every seed on the same items.",
                )
            if not np.isfinite(table).all():
                item = int((~np.isfinite(table)).any(axis=0).argmax()) + 1
                raise self._error(
                    f"seed {seed}: {self.items.removesuffix('s')} {item:,} has a figure that is "
                    "no finite number",
                    hint="That training diverged: mend it, or leave the seed out of all variants.",
                )

    def select(self, seeds: Sequence[int]) -> SeedTables:
        """The same method with these seeds alone, in this order."""
        places = [self.seeds.index(seed) for seed in seeds]
        return replace(
            self,
            seeds=tuple(seeds),
            statistics=self.statistics[places],
            splits=tuple(self.splits[place] for place in places),
        )

    def leave_one_out(self, score_function: ScoreFunction) -> tuple[Values, Values]:
        """The statistic of each seed (s), and with each item left out (s, n)."""
        statistics = np.moveaxis(self.statistics, 1, 0)
        sums = statistics.sum(axis=-1)
        # What overflows or divides by nought is found below, and told in words.
        with np.errstate(all="ignore"):
            whole = score_function(sums)
            without = (
                score_function(sums[..., None] - statistics) if statistics.shape[-1] > 1 else None
            )
        if whole.shape != sums.shape[1:]:
            raise ValueError(f"a statistic of {sums.shape} sums gave {whole.shape} values")
        for left, found in (("", whole), (" with one item left out", without)):
            if found is not None and not np.isfinite(found).all():
                seed = self.seeds[
                    int((~np.isfinite(found)).reshape(len(found), -1).any(1).argmax())
                ]
                raise self._error(
                    f"seed {seed}: the figure that is compared is no finite number{left}",
                    hint="No difference is made of it: look for a training that diverged, or "
                    "measure more items.",
                )
        return whole, whole[:, None] if without is None else without

    def _error(self, what: str, *, hint: str) -> UserError:
        return UserError(what, topic="comparison", where=self.variant, hint=hint)


def check_comparable(a: SeedTables, b: SeedTables) -> None:
    """Refuses what cannot be paired: other items, or other seeds."""
    between = f"{a.variant} and {b.variant}"
    if a.splits[0] != b.splits[0] or a.statistics.shape[-1] != b.statistics.shape[-1]:
        counts = [f"{m.splits[0]} ({m.statistics.shape[-1]:,} {m.items})" for m in (a, b)]
        raise UserError(
            f"{a.variant} was measured on {counts[0]}, {b.variant} on {counts[1]}",
            topic="comparison",
            where=between,
            hint="Figures from different items are not put side by side: measure both on one part.",
        )
    if a.seeds != b.seeds:
        both = [seed for seed in a.seeds if seed in b.seeds]
        raise UserError(
            f"{a.variant} has seeds {_listed(a.seeds)}, {b.variant} has {_listed(b.seeds)}",
            topic="comparison",
            where=between,
            hint=f"Compare on the seeds that both have: {_listed(both)}."
            if both
            else "Train both with the same seeds.",
        )


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
