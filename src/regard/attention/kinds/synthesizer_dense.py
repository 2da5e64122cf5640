"""Dense synthesizer: each place writes its own row of scores, from its vector alone.

    weights = softmax(W₂ relu(W₁ x) + b₂)                            Tay et al., 2020

W₁ is one layer for all heads, cut into heads as queries would be; W₂ belongs to a head and gives a
score for each position of the context. What stands at those positions is never looked at, so this
attention cannot look up by content. Shapes: b batch, h heads, i query, j key, d head width, w model
width, c context. Masks: True = may attend.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.function import HeadShape
from regard.attention.kinds import AttentionKind, kind
from regard.attention.mixer import Mixer
from regard.attention.synthesizer import Synthesizer, outer_parameters
from regard.attention.token_positions import TokenPositions
from regard.nn.linear import Linear


@kind(
    "synthesizer-dense",
    cost="n² · d",
    cross=False,
    relations=(),
    projections=("separate",),
    grouped_heads=False,
)
class SynthesizerDense(AttentionKind):
    """A small network writes each place's weights from that place alone; keys are never seen."""

    def build(self, shape: HeadShape) -> Mixer:
        return DenseSynthesizer(shape)

    def own_parameters(self, shape: HeadShape) -> int:
        """Value and out; W₁; W₂ with a column, and a bias, for each head and position."""
        w, biases = shape.model_width, shape.biases
        columns = shape.heads * shape.context
        return outer_parameters(shape) + w * (w + biases) + columns * (shape.width + biases)


class DenseSynthesizer(Synthesizer):
    def __init__(self, shape: HeadShape) -> None:
        super().__init__(shape)
        h, d, c = shape.heads, shape.width, shape.context
        self.hidden = Linear(shape.model_width, shape.model_width, bias=shape.biases)
        self.score_weight = nn.Parameter(torch.randn(h, d, c) / d**0.5)
        self.score_bias = nn.Parameter(torch.randn(h, c) / d**0.5) if shape.biases else None

    def scores(self, x: Tensor, positions: TokenPositions) -> Tensor:
        """(b,i,w), the row's j places -> (b,h,i,j)"""
        hidden = self._heads(torch.relu(self.hidden(x)))
        if positions.in_order:
            return self._by_position(hidden, positions=positions.ids.shape[1])
        scores = self._by_position(hidden, positions=self.shape.context)
        columns = positions.ids[:, None, None].expand(*scores.shape[:3], -1)
        return scores.gather(-1, columns)

    def _by_position(self, hidden: Tensor, *, positions: int) -> Tensor:
        """(b,h,i,d) -> (b,h,i, the first positions)"""
        scores = hidden @ self.score_weight[..., :positions]
        if self.score_bias is None:
            return scores
        return scores + self.score_bias[:, None, :positions]
