"""Whether the labels of overlapping rows agree more, or less, than by chance.

Rows made from one template ("where was … born?") are near in wording and say nothing of each
other's label. Copies do, even with flipped labels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.overlap.search import Overlap

MIN_PAIRS = 30
"With fewer, no agreement can be told from chance."
MIN_DEVIATIONS = 3.0
MAX_COPIES = 0.5
"Fraction of the pairs that may be copies, as far as their agreement with two deviations more says."


@dataclass(frozen=True)
class LabelAgreement:
    pairs: int
    same: int
    expected: float
    "Pairs that would have the same label if each training row were drawn at random."
    deviation: float
    "Standard deviation of that number."

    @property
    def at_chance(self) -> bool:
        """Whether a training row says nothing of the label of the item that it is similar to.

        Where nearly all rows have one label, copies agree little more than by chance: few pairs
        show nothing, and none are at chance."""
        excess = self.same - self.expected
        return (
            self.pairs >= MIN_PAIRS
            and abs(excess) <= MIN_DEVIATIONS * self.deviation
            and excess + 2 * self.deviation <= MAX_COPIES * (self.pairs - self.expected)
        )


def label_agreement(
    overlaps: Iterable[Overlap], held_out: Sequence[Any], train: Sequence[Any]
) -> LabelAgreement:
    """Of some items and their best rows, by the labels of the split and of training."""
    counts = Counter(map(str, train))
    pairs = [(str(held_out[each.item]), str(train[each.row])) for each in overlaps]
    rates = [counts[label] / len(train) for label, _ in pairs]
    return LabelAgreement(
        pairs=len(pairs),
        same=sum(label == other for label, other in pairs),
        expected=sum(rates),
        deviation=math.sqrt(sum(rate * (1 - rate) for rate in rates)),
    )
