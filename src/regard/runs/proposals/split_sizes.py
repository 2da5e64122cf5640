"""Fractions of a corpus for dev and test that are large enough to tell something.

The smallest difference of two models that n rows show follows from `statistics/planning.py`. The
proposal is the smallest fraction that shows `DIFFERENCE`, and no more than `MAX_FRACTION`, for what
is evaluated is not learned from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.evaluation.statistics.baseline_verdict import MIN_ITEMS
from regard.evaluation.statistics.item_groups import MIN_GROUPS
from regard.evaluation.statistics.planning import smallest_difference

DIFFERENCE = 0.05
"In accuracy, that dev should show."
FRACTIONS = (0.05, 0.1, 0.15, 0.2)
FRACTIONS_OF_FEW_GROUPS = (0.25, 0.3)
"Where a fifth of the groups is too few for any verdict."


@dataclass(frozen=True)
class SplitSizes:
    """Fractions for the splits without a file of their own."""

    fraction: float
    rows: int
    "Rows, or groups where there are groups, that the fraction is of."
    unit: str
    max_rows: int
    "Rows of a split that the final evaluation takes."

    @property
    def least(self) -> int:
        """Units without which there is no verdict."""
        return MIN_GROUPS if self.unit == "groups" else MIN_ITEMS

    @property
    def held_out(self) -> int:
        return round(self.fraction * self.rows)

    def difference(self, fraction: float | None = None) -> float | None:
        """The smallest that is found; None where none is."""
        units = round((self.fraction if fraction is None else fraction) * self.rows)
        found = smallest_difference(min(units, self.max_rows))
        return found if found is not None and found < 1 else None

    def describe(self) -> str:
        """What the proposed fraction shows, and what the default would."""
        shown = self.difference()
        if shown is None:
            return f"{self.held_out:,} {self.unit} are too few for any verdict: give more"
        said = f"about {self.held_out:,} {self.unit} show differences above {shown:.2f}"
        if self.held_out < self.least:
            return f"about {self.held_out:,} {self.unit}; a verdict takes {self.least}"
        smallest, default = FRACTIONS[0], self.difference(FRACTIONS[0])
        if self.fraction == smallest:
            return said
        n = round(smallest * self.rows)
        if default is None:
            return f"{said} ({smallest:g} would give {n:,} {self.unit} and show none)"
        return f"{said} ({smallest:g} would give {n:,} {self.unit} and show {default:.2f})"


def propose_sizes(rows: int, *, unit: str, max_rows: int) -> SplitSizes:
    """For tasks whose rows are right or wrong."""
    for fraction in FRACTIONS:
        sizes = SplitSizes(fraction, rows, unit, max_rows)
        difference = sizes.difference()
        if difference is not None and difference <= DIFFERENCE:
            break
        if min(sizes.held_out, max_rows) == max_rows:  # more would not be evaluated
            break
    for fraction in FRACTIONS_OF_FEW_GROUPS:
        if unit == "groups" and sizes.held_out < sizes.least:
            sizes = SplitSizes(fraction, rows, unit, max_rows)
    return sizes


def propose_document_fraction(documents: int) -> float:
    """For texts, where only their number has to be enough for an interval."""
    enough = (one for one in FRACTIONS if math.floor(one * documents) >= MIN_ITEMS)
    return next(enough, FRACTIONS[-1])
