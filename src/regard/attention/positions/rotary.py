"""Rotary position embeddings (RoPE): queries and keys are rotated by their positions.

    (x_c, x_{c+d/2})  rotated by the angle  t · θ_c        θ_c = base^(−2c/d)        Su et al., 2021

The score of a rotated query and a rotated key depends on their distance alone. Coordinate c is
paired with c + d/2, the two halves of the head, as in LLaMA checkpoints of Hugging Face; the paper
pairs neighbours, which is the same up to the order of coordinates. Values are not rotated.
Shapes: b batch, h heads, i position, c pair, d head width.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from regard.attention.function import HeadShape
from regard.attention.kinds import RelativeType
from regard.attention.positions import POSITIONS, PositionKind, RelativePosition
from regard.core.errors import UserError
from regard.core.process.host import widest_float


@POSITIONS.add("rotary", reach="any position", acts="on queries and keys")
class Rotary(PositionKind):
    """RoPE: rotates queries and keys by their positions, so that scores depend on distances."""

    relative_type: ClassVar[RelativeType | None] = "rotation"
    base: float = Field(default=10_000.0, gt=1.0)
    "Wavelengths grow from 2π to nearly base · 2π positions: a larger base suits longer rows."

    def build_relative_position(self, shape: HeadShape) -> RelativePosition:
        if shape.width % 2:
            raise UserError(
                f"rotary positions rotate pairs of coordinates, and a head of {shape.width} is odd "
                f"(model.width {shape.model_width} / model.heads {shape.heads})",
                topic="model.positions",
                hint="Choose model.width and model.heads whose quotient is even.",
            )
        return RotaryEmbedding(self.base)


class RotaryEmbedding(RelativePosition):
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
        # In float32 the error of an angle grows with the position, so angles are computed in
        # float64 whatever the model's precision.
        precise = widest_float(positions.device)
        step = torch.arange(pairs, device=positions.device, dtype=precise)
        return positions.to(precise)[..., None] * self.base ** (-step / pairs)
