"""Telling the tokens of a hidden span from its two ends.

    y_i = f([x_{s−1}; x_{e+1}; p_{i−s+1}])        span s … e, outer boundaries s − 1 and e + 1
    f = LayerNorm ∘ GELU ∘ linear, twice; scored against the token table

Joshi et al., 2020: what stands inside a span then has to be known at its ends.
Shapes: n hidden tokens, w model width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.count import Term
from regard.nn.linear import Linear

PLACES = 32
"Places of a span that have a vector of their own; those further on share the last."


class SpanBoundary(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.positions = nn.Embedding(PLACES, width)
        self.first = Linear(3 * width, width)
        self.first_norm = nn.LayerNorm(width)
        self.second = Linear(width, width)
        self.second_norm = nn.LayerNorm(width)

    def forward(self, left: Tensor, right: Tensor, place: Tensor) -> Tensor:
        """(n,w), (n,w), (n) -> (n,w); `place` counts within the span, from 0."""
        own = self.positions(place.clamp(max=PLACES - 1))
        x = self.first_norm(F.gelu(self.first(torch.cat((left, right, own), dim=-1))))
        y: Tensor = self.second_norm(F.gelu(self.second(x)))
        return y


def boundary_term(width: int) -> Term:
    """How many parameters it has."""
    value = PLACES * width + 4 * width * width + 6 * width
    return Term("span boundary", f"{PLACES}·w + 4·w·w + 6·w", value)
