"""ALiBi: the farther a key, the lower its score, and nothing is trained.

    bias_h(i, j) = −slope_h · |i − j|        slope_h = 2^(−8 (h+1) / H)        Press et al., 2022

The formula is for H heads a power of two. Otherwise, as in the paper's code, the heads take the
slopes of the next smaller power of two, and the rest every second one of the next larger.
Shapes: b batch, h heads, i query, j key.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.function import HeadShape
from regard.attention.kinds import RelationSort
from regard.attention.positions import POSITIONS, PositionKind, RelativePosition


@POSITIONS.add("alibi", reach="any place", acts="on the scores")
class Alibi(PositionKind):
    """Lowers a score in proportion to the distance, by a slope of each head's own."""

    @property
    def relation_sort(self) -> RelationSort:
        return "bias"

    def build_relation(self, shape: HeadShape) -> RelativePosition:
        return Slopes(shape.heads)


class Slopes(RelativePosition):
    def __init__(self, heads: int) -> None:
        super().__init__()
        # Made anew from the formula when a model is loaded, so they are not saved.
        self.register_buffer("slopes", torch.tensor(slopes_of(heads)), persistent=False)
        self.slopes: Tensor

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        distance = (queries[:, None, :, None] - keys[:, None, None, :]).abs()
        return -self.slopes[:, None, None] * distance


def slopes_of(heads: int) -> list[float]:
    """One slope a head, the steepest first among each power of two."""
    even = 2 ** (heads.bit_length() - 1)
    slopes = _geometric(even)
    if heads > even:
        slopes += _geometric(2 * even)[::2][: heads - even]
    return slopes


def _geometric(heads: int) -> list[float]:
    return [2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)]
