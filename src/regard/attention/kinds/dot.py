"""Scaled dot-product attention: a key counts by its inner product with the query.

    score(q, k) = q · k / √d                                        Vaswani et al., 2017

Without the root the variance of the scores grows with d, the softmax saturates and its gradient
vanishes. Shapes: b batch, h heads, i query, j key, d head width.
"""

from __future__ import annotations

import math

from torch import Tensor

from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.rule import HeadShape, Rule


@ATTENTION.add("dot", cost="n² · d", cacheable=True)
class Dot(AttentionKind):
    """Scaled dot-product: the standard of every Transformer."""

    def build(self, shape: HeadShape) -> Rule:
        return DotProduct()


class DotProduct(Rule):
    is_scaled_dot_product = True

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j)"""
        return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
