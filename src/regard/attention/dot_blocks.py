"""Scaled dot-product attention with dropped weights, a few queries at a time.

    out = (softmax(q kᵀ/√d + bias) · kept / share) v

torch's fused kernel has no dropout on a processor: it writes out all weights and draws a float for
each, three to five times the time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.attention.query_blocks import BlockSize
from regard.attention.rule import Asked
from regard.attention.softmax_blocks import Scoring, Sides, softmax_in_blocks


def dropped_dot(asked: Asked) -> Tensor:
    """(b,h,i,d)"""
    with torch.autocast(asked.q.device.type, enabled=False):
        scaled = asked.q.contiguous() / math.sqrt(asked.q.shape[-1])
        return softmax_in_blocks(
            DotScoring(), Sides(scaled, asked.k.contiguous()), asked.v.contiguous(), asked
        )


class DotScoring(Scoring):
    """Products of the two sides; the queries' is scaled already."""

    size = BlockSize(values=2**21, queries=64)

    def scores(self, part: Sides) -> tuple[Tensor, None]:
        return part.query @ part.key.transpose(-2, -1), None

    def add_gradients(
        self, d_part: Sides, part: Sides, d_scores: Tensor, inner: Tensor | None
    ) -> None:
        d_part.query.add_(d_scores @ part.key)
        d_part.key.add_(d_scores.transpose(-2, -1) @ part.query)
