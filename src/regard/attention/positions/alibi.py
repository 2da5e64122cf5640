"""ALiBi: a linear bias on the scores, lower for more distant keys; nothing is trained.

    bias_h(i, j) = −slope_h · |i − j|        slope_h = 2^(−8 (h+1) / H)        Press et al., 2022

The formula holds for H a power of two. Otherwise, as in the paper's code, the first heads take the
slopes of the next smaller power of two, the rest every second slope of the next larger one.
Shapes: b batch, h heads, i query, j key.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from regard.attention.function import HeadShape
from regard.attention.kinds import RelativeType
from regard.attention.positions import POSITIONS, PositionKind, RelativePosition


@POSITIONS.add("alibi", reach="any position", acts="on the scores")
class Alibi(PositionKind):
    """Lowers a score in proportion to the distance, with one slope per head."""

    relative_type: ClassVar[RelativeType | None] = "bias"

    def build_relative_position(self, shape: HeadShape) -> RelativePosition:
        return AlibiBias(shape.heads)


class AlibiBias(RelativePosition):
    def __init__(self, heads: int) -> None:
        super().__init__()
        # Recomputed from the formula when a model is loaded, so not saved.
        self.register_buffer("slopes", torch.tensor(alibi_slopes(heads)), persistent=False)
        self.slopes: Tensor

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        distance = (queries[:, None, :, None] - keys[:, None, None, :]).abs()
        return -self.slopes[:, None, None] * distance


def alibi_slopes(heads: int) -> list[float]:
    """One slope per head, the steepest first within each power of two."""
    power_of_two = 2 ** (heads.bit_length() - 1)
    slopes = _geometric(power_of_two)
    if heads > power_of_two:
        slopes += _geometric(2 * power_of_two)[::2][: heads - power_of_two]
    return slopes


def _geometric(heads: int) -> list[float]:
    return [2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)]
