"""Hard attention: each query takes the one key with the best score, and nothing of the others.

    weight_j = 1 where j = argmax_j q · k_j / √d, else 0          the first key wins a tie

An argmax does not move when its scores move a little, so no gradient reaches queries and keys: the
matrices that make them train nothing and stay as they were drawn. Only values learn. That is the
point of this kind: softmax is what lets attention learn where to look (Xu et al., 2015, train hard
attention by sampling instead). Shapes: b batch, h heads, i query, j key, d head width. Masks:
True = may attend.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds import AttentionKind, kind


@kind("hard", cost="n² · d")
class Hard(AttentionKind):
    """Takes the one best key (argmax); its queries and keys get no gradient and train nothing."""

    def build(self, shape: HeadShape) -> AttentionFunction:
        return BestKey()


class BestKey(AttentionFunction):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j)"""
        return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        best = scores.masked_fill(~allowed, -torch.inf).argmax(dim=-1, keepdim=True)
        one_hot = torch.zeros_like(scores).scatter(-1, best, 1.0)
        # Where nothing is allowed the argmax still names a key.
        return one_hot.masked_fill(~allowed, 0.0)
