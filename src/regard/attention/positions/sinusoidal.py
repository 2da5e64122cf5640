"""Sinusoidal positions: fixed waves, from wavelength 2π up to 10000 · 2π.

    p_t[2c] = sin(t / 10000^(2c/width))        p_t[2c+1] = cos(t / 10000^(2c/width))

Vaswani et al., 2017. Nothing is trained, and any place has a vector.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention.positions import POSITIONS, AbsolutePositionKind
from regard.core.errors import UserError


@POSITIONS.add("sinusoidal", reach="any place", acts="on the embedding")
class Sinusoidal(AbsolutePositionKind):
    """Fixed sines and cosines of geometrically growing wavelength."""

    def build_vectors(self, *, width: int, context: int) -> nn.Module:
        if width % 2:
            raise UserError(
                f"sinusoidal positions come in pairs of a sine and a cosine, and {width} is odd",
                topic="model.positions",
                hint="Choose an even model.width."
                if self.combine == "add"
                else "Choose an even model.positions.own_width, or leave it out.",
            )
        return Waves(width, context=context)

    def usual_width(self, model_width: int) -> int:
        """A quarter, in whole pairs of a sine and a cosine."""
        return max(2, model_width // 8 * 2)


class Waves(nn.Module):
    def __init__(self, width: int, *, context: int) -> None:
        super().__init__()
        place = torch.arange(context, dtype=torch.float64)[:, None]
        wave = torch.arange(0, width, 2, dtype=torch.float64)
        rate = torch.exp(wave * (-math.log(10_000) / width))
        angle = place * rate
        table = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
        # Made anew from the formula when a model is loaded, so it is not saved.
        self.register_buffer("table", table.float(), persistent=False)
        self.table: Tensor

    def forward(self, positions: Tensor) -> Tensor:
        return self.table[positions]
