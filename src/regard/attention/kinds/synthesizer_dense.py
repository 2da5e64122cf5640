"""Dense synthesizer: each position computes its row of scores from its own hidden state alone.

    weights = softmax(W₂ relu(W₁ x) + b₂)                            Tay et al., 2020

W₁ is one layer, split into heads as queries would be; W₂ is per head and gives a score for each
position of the context. The contents of those positions have no influence, so this attention cannot
retrieve by content. Shapes: b batch, h heads, i query, j key, d head width, w model width,
c context. Masks: True = may attend.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.function import HeadShape
from regard.attention.kinds import AttentionKind, kind
from regard.attention.mixer import Mixer
from regard.attention.synthesizer import Synthesizer, value_and_out_parameters
from regard.attention.token_positions import TokenPositions
from regard.nn.linear import Linear


@kind(
    "synthesizer-dense",
    cost="n² · d",
    cross=False,
    relative_positions=(),
    projections=("separate",),
    grouped_heads=False,
)
class SynthesizerDense(AttentionKind):
    """A small network computes each position's weights from that position alone, without keys."""

    def build(self, shape: HeadShape) -> Mixer:
        return DenseSynthesizer(shape)

    def own_parameters(self, shape: HeadShape) -> int:
        """Value and out; W₁; W₂ with a column, and a bias, per head and position."""
        w, biases = shape.model_width, shape.biases
        columns = shape.heads * shape.context
        return value_and_out_parameters(shape) + w * (w + biases) + columns * (shape.width + biases)


class DenseSynthesizer(Synthesizer):
    def __init__(self, shape: HeadShape) -> None:
        super().__init__(shape)
        h, d, c = shape.heads, shape.width, shape.context
        self.hidden = Linear(shape.model_width, shape.model_width, bias=shape.biases)
        self.score_weight = nn.Parameter(torch.randn(h, d, c) / d**0.5)
        self.score_bias = nn.Parameter(torch.randn(h, c) / d**0.5) if shape.biases else None

    def scores(self, x: Tensor, positions: TokenPositions) -> Tensor:
        """(b,i,w), the row's j positions -> (b,h,i,j)"""
        hidden = self.shape.split_heads(torch.relu(self.hidden(x)))
        if positions.in_order:
            return self._scores_by_position(hidden, length=positions.ids.shape[1])
        scores = self._scores_by_position(hidden, length=self.shape.context)
        columns = positions.ids[:, None, None].expand(*scores.shape[:3], -1)
        return scores.gather(-1, columns)

    def _scores_by_position(self, hidden: Tensor, *, length: int) -> Tensor:
        """(b,h,i,d) -> (b,h,i,length): scores of the first positions"""
        scores = hidden @ self.score_weight[..., :length]
        if self.score_bias is None:
            return scores
        return scores + self.score_bias[:, None, :length]
