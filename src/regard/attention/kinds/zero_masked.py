"""Zero-masked attention, broken on purpose: the mask is applied after the softmax.

    weight_ij = exp(s_ij) / Σ_j' exp(s_ij')  where j is allowed, else 0          s = q · k / √d

The denominator sums over all keys, forbidden ones included. So the total weight of the allowed keys
reveals how well the forbidden ones match: the next token leaks to a language model through the
denominator. Its perplexity falls (in one course's experiment from 381 to 187) and means nothing,
since the next token is not there in generation. Shapes: b batch, h heads, i query, j key, d head
width. Masks: True = may attend.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.function import AttentionFunction, HeadShape, ScaledDotScores
from regard.attention.kinds import BrokenKind, kind


@kind(
    "zero-masked",
    cost="n² · d",
    broken="the mask comes after the softmax, so the future leaks into every position",
    fails=("forbidden-keys", "padding", "cache"),
)
class ZeroMasked(BrokenKind):
    """Broken on purpose: forbidden weights are set to 0 after the softmax has seen their scores."""

    def build(self, shape: HeadShape) -> AttentionFunction:
        return MaskAfterSoftmax()


class MaskAfterSoftmax(ScaledDotScores):
    ignores_masked_keys = False

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return torch.softmax(scores, dim=-1).masked_fill(~allowed, 0.0)
