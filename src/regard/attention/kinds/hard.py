"""Hard attention: each query takes the value of the key with the highest score alone.

    weight_j = 1 where j = argmax_j q · k_j / √d, else 0          the first key wins a tie

The argmax is piecewise constant, so no gradient reaches queries and keys: their projections stay at
their initial values, and only values learn. That is the point of this kind: softmax is what lets
attention learn where to attend (Xu et al., 2015, train hard attention by sampling instead). Shapes:
b batch, h heads, i query, j key, d head width. Masks: True = may attend.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.function import AttentionFunction, HeadShape, ScaledDotScores
from regard.attention.kinds import AttentionKind, kind


@kind("hard", cost="n² · d")
class Hard(AttentionKind):
    """Takes the one best key (argmax); query and key projections get no gradient."""

    def build(self, shape: HeadShape) -> AttentionFunction:
        return ArgmaxAttention()


class ArgmaxAttention(ScaledDotScores):
    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        best = scores.masked_fill(~allowed, -torch.inf).argmax(dim=-1, keepdim=True)
        one_hot = torch.zeros_like(scores).scatter(-1, best, 1.0)
        # In a fully masked row the argmax still selects a key.
        return one_hot.masked_fill(~allowed, 0.0)
