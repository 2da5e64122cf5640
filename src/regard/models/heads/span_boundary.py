"""The span boundary objective's network: predicts the tokens of a masked span from its boundaries.

    y_i = f([x_{s−1}; x_{e+1}; p_{i−s+1}])        span s … e, outer boundaries s − 1 and e + 1
    f = LayerNorm ∘ GELU ∘ linear, twice; logits by the token table

Joshi et al., 2020 (SpanBERT): the boundary tokens then have to encode the span's content.
Shapes: n masked tokens, w model width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.ledger import ParameterCount
from regard.nn.linear import Linear

MAX_SPAN_POSITIONS = 32
"Positions within a span that have their own embedding; later ones share the last."


class SpanBoundary(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.positions = nn.Embedding(MAX_SPAN_POSITIONS, width)
        self.first = Linear(3 * width, width)
        self.first_norm = nn.LayerNorm(width)
        self.second = Linear(width, width)
        self.second_norm = nn.LayerNorm(width)

    def forward(self, left: Tensor, right: Tensor, position: Tensor) -> Tensor:
        """(n,w), (n,w), (n) -> (n,w); `position` counts within the span, from 0."""
        embedded = self.positions(position.clamp(max=MAX_SPAN_POSITIONS - 1))
        x = self.first_norm(F.gelu(self.first(torch.cat((left, right, embedded), dim=-1))))
        y: Tensor = self.second_norm(F.gelu(self.second(x)))
        return y


def span_boundary_parameters(width: int) -> ParameterCount:
    value = MAX_SPAN_POSITIONS * width + 4 * width * width + 6 * width
    return ParameterCount("span boundary", f"{MAX_SPAN_POSITIONS}·w + 4·w·w + 6·w", value)
