"""Rotary positions: queries and keys are turned by where they stand, so scores see distances.

    (x_c, x_{c+d/2})  turned by the angle  t · θ_c        θ_c = base^(−2c/d)        Su et al., 2021

A turned query times a turned key depends on their distance alone. Coordinate c is paired with
c + d/2, the two halves of the head, as LLaMA checkpoints in Hugging Face's form have it; the paper
pairs neighbours, which is the same up to the order of coordinates. Values are not turned.
Shapes: b batch, h heads, i place, c pair, d head width.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from regard.attention.function import HeadShape
from regard.attention.kinds import RelationSort
from regard.attention.positions import POSITIONS, PositionKind, RelativePosition
from regard.core.errors import UserError


@POSITIONS.add("rotary", reach="any place", acts="on queries and keys")
class Rotary(PositionKind):
    """Turns queries and keys by their place, so that scores see distances."""

    base: float = Field(default=10_000.0, gt=1.0)
    "Wavelengths grow from 2π up to nearly base · 2π places: a larger base suits longer rows."

    @property
    def relation_sort(self) -> RelationSort:
        return "rotation"

    def build_relation(self, shape: HeadShape) -> RelativePosition:
        if shape.width % 2:
            raise UserError(
                f"rotary positions turn pairs of coordinates, and a head of {shape.width} is odd "
                f"(model.width {shape.model_width} / model.heads {shape.heads})",
                topic="model.positions",
                hint="Choose model.width and model.heads whose quotient is even.",
            )
        return Rotation(self.base)


class Rotation(RelativePosition):
    def __init__(self, base: float) -> None:
        super().__init__()
        self.base = base

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        angles = self._angles(positions, pairs=x.shape[-1] // 2)[:, None]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)

    def _angles(self, positions: Tensor, *, pairs: int) -> Tensor:
        """(b or 1,i) -> (b or 1,i,c)"""
        # In float32 a place far along a row would be off by its number of rounding errors, so the
        # angle is made in float64 whatever the model's own precision; Apple's GPUs have none.
        precise = torch.float32 if positions.device.type == "mps" else torch.float64
        step = torch.arange(pairs, device=positions.device, dtype=precise)
        return positions.to(precise)[..., None] * self.base ** (-step / pairs)
