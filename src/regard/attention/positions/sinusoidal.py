"""Sinusoidal position embeddings: fixed waves, with wavelengths from 2π to 10000 · 2π.

    p_t[2c] = sin(t / 10000^(2c/width))        p_t[2c+1] = cos(t / 10000^(2c/width))

Vaswani et al., 2017. Nothing is trained, and every position has an embedding.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention.positions import POSITIONS, AbsolutePositionKind
from regard.core.errors import UserError


@POSITIONS.add("sinusoidal", reach="any position", acts="on the embedding")
class Sinusoidal(AbsolutePositionKind):
    """Fixed sines and cosines of geometrically growing wavelength."""

    def build_embedding(self, *, width: int, context: int) -> nn.Module:
        if width % 2:
            raise UserError(
                f"sinusoidal positions are pairs of a sine and a cosine, and {width} is odd",
                topic="model.positions",
                hint="Choose an even model.width."
                if self.combine == "add"
                else "Choose an even model.positions.position_width, or leave it out.",
            )
        return SinusoidalEmbedding(width, context=context)

    def embedding_buffer(self, *, width: int, context: int) -> int:
        return 5 * context * width  # its angles, sines and cosines are computed in float64

    def default_width(self, model_width: int) -> int:
        """A quarter, in whole pairs of a sine and a cosine."""
        return max(2, model_width // 8 * 2)


class SinusoidalEmbedding(nn.Module):
    def __init__(self, width: int, *, context: int) -> None:
        super().__init__()
        position = torch.arange(context, dtype=torch.float64)[:, None]
        channel = torch.arange(0, width, 2, dtype=torch.float64)
        frequency = torch.exp(channel * (-math.log(10_000) / width))
        angle = position * frequency
        table = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
        # Recomputed from the formula when a model is loaded, so not saved.
        self.register_buffer("table", table.float(), persistent=False)
        self.table: Tensor

    def forward(self, positions: Tensor) -> Tensor:
        return self.table[positions]
