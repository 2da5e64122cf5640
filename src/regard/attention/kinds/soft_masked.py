"""Soft-masked attention, broken on purpose: a finite penalty on forbidden scores instead of −∞.

    weights = softmax(s − penalty · forbidden)                                   s = q · k / √d

A forbidden key keeps e^−penalty of its weight, and more where its score is high. With a very large
penalty that weight rounds to 0, and only a fully masked query shows the mistake: all its keys have
the same penalty, so it gets their average, not zeros.
Shapes: b batch, h heads, i query, j key, d head width. Masks: True = may attend.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from regard.attention.function import AttentionFunction, HeadShape, ScaledDotScores
from regard.attention.kinds import BrokenKind, kind


@kind(
    "soft-masked",
    cost="n² · d",
    broken="a forbidden score is lowered by a finite penalty, and its key keeps a little weight",
    fails=("empty-rows", "forbidden-keys", "padding", "cache"),
)
class SoftMasked(BrokenKind):
    """Broken on purpose: a finite penalty is subtracted from forbidden scores, instead of ∞."""

    penalty: float = Field(default=9.0, gt=0.0, allow_inf_nan=False)
    "Penalty that is subtracted from a forbidden score."

    def build(self, shape: HeadShape) -> AttentionFunction:
        return FinitePenalty(self.penalty)


class FinitePenalty(ScaledDotScores):
    ignores_masked_keys = False

    def __init__(self, penalty: float) -> None:
        super().__init__()
        self.penalty = penalty

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return torch.softmax(scores - self.penalty * (~allowed).to(scores.dtype), dim=-1)
