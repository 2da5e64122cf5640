"""Relative bias: a learned bias on the scores for each head and distance, as in T5.

    score(i, j) = q_i · k_j / √d + π_h(j − i)          π_h(t) = table[h, clip(t, −k, k) + k]

Raffel et al., 2020 (without their buckets); clipping from Shaw et al., 2018. The bias is added
before the softmax, so e^π scales a key's unnormalised weight. Each attention has its own table of
(2k+1) · heads parameters, where k = context − 1 without clipping.
Shapes: b batch, h heads, i query, j key.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.function import HeadShape
from regard.attention.kinds import RelativeType
from regard.attention.positions import POSITIONS, PositionKind, RelativePosition
from regard.core.errors import UserError
from regard.core.process.host import is_readable


@POSITIONS.add(
    "relative",
    reach="the context it was trained with, or any position when clipped",
    acts="on the scores",
)
class Relative(PositionKind):
    """A learned bias on the scores for each head and distance."""

    relative_type: ClassVar[RelativeType | None] = "bias"
    clip: int = Field(default=0, ge=0)
    "Larger distances share the bias of this one; 0 has a bias for every distance of the context."

    def build_relative_position(self, shape: HeadShape) -> RelativePosition:
        max_distance = self._max_distance(shape)
        max_length = None if self.clip else shape.context
        return RelativeBias(shape.heads, max_distance=max_distance, max_length=max_length)

    @property
    def relative_formula(self) -> str:
        return "h·(2k + 1), k the clip" if self.clip else "h·(2(T − 1) + 1)"

    def relative_parameters(self, shape: HeadShape) -> int:
        return shape.heads * (2 * self._max_distance(shape) + 1)

    def _max_distance(self, shape: HeadShape) -> int:
        if self.clip > shape.context - 1:
            raise UserError(
                f"the bias is clipped at {self.clip}, and distances reach at most "
                f"context − 1 = {shape.context - 1}",
                topic="model.positions.clip",
                hint="Lower it, leave it out for a bias for every distance, or raise "
                "model.context.",
            )
        return self.clip or shape.context - 1


class RelativeBias(RelativePosition):
    def __init__(self, heads: int, *, max_distance: int, max_length: int | None) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.max_length = max_length
        self.table = nn.Parameter(torch.zeros(heads, 2 * max_distance + 1))

    def check_length(self, queries: Tensor, keys: Tensor) -> None:
        """By position ids, not columns: padding lengthens a row but no distance."""
        if self.max_length is None:
            return
        before, after = queries.amax(1) - keys.amin(1), keys.amax(1) - queries.amin(1)
        length = int(torch.maximum(before, after).max()) + 1
        if length > self.max_length:
            raise UserError(
                f"a row of {length} positions, and there are biases for distances within "
                f"{self.max_length} alone",
                topic="model.positions",
                hint="Raise model.context, or set model.positions.clip, which reaches any "
                "position.",
            )

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        if is_readable(keys):
            self.check_length(queries, keys)
        distance = keys[:, None, :] - queries[:, :, None]
        column = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        # index_select, because the backward pass of table[:, column] takes three times as long.
        selected = self.table.index_select(1, column.flatten())
        return selected.view(-1, *column.shape).transpose(0, 1)
