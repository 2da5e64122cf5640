"""Zero-masked attention, broken on purpose: the mask comes after the softmax.

    weight_ij = exp(s_ij) / Σ_j' exp(s_ij')  where j is allowed, else 0          s = q · k / √d

The sum runs over all keys, forbidden ones too. What a place keeps for its allowed keys then tells
how well the forbidden ones match: a language model senses the next token through the denominator.
Its perplexity falls (in one course's experiment from 381 to 187) and means nothing, since nobody
has the next token when it is time to write. Shapes: b batch, h heads, i query, j key, d head width.
Masks: True = may attend.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds import BrokenKind, kind


@kind(
    "zero-masked",
    cost="n² · d",
    broken="the mask comes after the softmax, so every place senses the future",
    fails=("forbidden-keys", "padding", "cache"),
)
class ZeroMasked(BrokenKind):
    """Broken on purpose: forbidden weights are set to 0 after the softmax has seen their scores."""

    def build(self, shape: HeadShape) -> AttentionFunction:
        return MaskAfterSoftmax()


class MaskAfterSoftmax(AttentionFunction):
    ignores_forbidden = False

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j)"""
        return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return torch.softmax(scores, dim=-1).masked_fill(~allowed, 0.0)
