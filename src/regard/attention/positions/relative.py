"""Relative bias: each head learns how much it likes each distance.

    score(i, j) = q_i · k_j / √d + π_h(j − i)          π_h(t) = table[h, clip(t, −k, k) + k]

Raffel et al., 2020 (without their buckets); clipping from Shaw et al., 2018. The bias is added
before the softmax, so e^π scales a key's unnormalised weight. Each attention has a table of its
own: (2k+1) · heads parameters, where k = context − 1 without clipping.
Shapes: b batch, h heads, i query, j key.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.function import HeadShape
from regard.attention.kinds import RelationSort
from regard.attention.positions import POSITIONS, PositionKind, RelativePosition
from regard.core.errors import UserError


@POSITIONS.add(
    "relative",
    reach="the context it was trained with, or any place when clipped",
    acts="on the scores",
)
class Relative(PositionKind):
    """A learned bias on the scores for each head and distance."""

    clip: int = Field(default=0, ge=0)
    "Distances beyond so many places count as this one; 0 tells all distances of the context apart."

    @property
    def relation_sort(self) -> RelationSort:
        return "bias"

    def build_relation(self, shape: HeadShape) -> RelativePosition:
        farthest = self._farthest(shape)
        longest = None if self.clip else shape.context
        return DistanceBias(shape.heads, farthest=farthest, longest=longest)

    @property
    def relation_formula(self) -> str:
        return "h·(2k + 1), k the clip" if self.clip else "h·(2(T − 1) + 1)"

    def relation_parameters(self, shape: HeadShape) -> int:
        return shape.heads * (2 * self._farthest(shape) + 1)

    def _farthest(self, shape: HeadShape) -> int:
        if self.clip > shape.context - 1:
            raise UserError(
                f"the bias is clipped at {self.clip}, and distances reach at most "
                f"context − 1 = {shape.context - 1}",
                topic="model.positions.clip",
                hint="Lower it, leave it out to tell all distances apart, or raise model.context.",
            )
        return self.clip or shape.context - 1


class DistanceBias(RelativePosition):
    def __init__(self, heads: int, *, farthest: int, longest: int | None) -> None:
        super().__init__()
        self.farthest = farthest
        self.longest = longest
        self.table = nn.Parameter(torch.zeros(heads, 2 * farthest + 1))

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        if self.longest is not None:
            _check_reach(queries, keys, longest=self.longest)
        distance = keys[:, None, :] - queries[:, :, None]
        column = distance.clamp(-self.farthest, self.farthest) + self.farthest
        # index_select, because the backward pass of table[:, column] takes three times as long.
        picked = self.table.index_select(1, column.flatten())
        return picked.view(-1, *column.shape).transpose(0, 1)


def _check_reach(queries: Tensor, keys: Tensor, *, longest: int) -> None:
    """By positions, not columns: padding makes a row longer and no distance larger."""
    back, ahead = queries.amax(1) - keys.amin(1), keys.amax(1) - queries.amin(1)
    positions = int(torch.maximum(back, ahead).max()) + 1
    if positions > longest:
        raise UserError(
            f"a row of {positions} places, and distances are known within {longest} alone",
            topic="model.positions",
            hint="Raise model.context, or set model.positions.clip, which reaches any place.",
        )
