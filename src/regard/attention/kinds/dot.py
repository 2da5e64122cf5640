"""Scaled dot-product attention: a key counts by its inner product with the query.

    score(q, k) = q · k / √d                                        Vaswani et al., 2017

Without the root the variance of the scores grows with d, the softmax saturates and its gradient
vanishes. The fast path is torch's fused kernel, which on a processor knows no dropout: there the
weights are made in blocks of queries. Shapes: b batch, h heads, i query, j key, d head width.
"""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.dot_blocks import dropped_dot
from regard.attention.kinds import AttentionKind, kind
from regard.attention.rule import Asked, Fast, HeadShape, Rule


@kind("dot", cost="n² · d")
class Dot(AttentionKind):
    """Scaled dot-product: the standard of every Transformer."""

    def build(self, shape: HeadShape) -> Rule:
        return DotProduct()


class DotProduct(Rule):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j)"""
        return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])

    def fast(self, asked: Asked) -> Fast:
        q, k, v, mask, bias = asked.q, asked.k, asked.v, asked.mask, asked.bias
        if asked.dropout and q.device.type == "cpu":
            return Fast(dropped_dot(asked), "query-blocks")
        fused = partial(F.scaled_dot_product_attention, dropout_p=asked.dropout)
        # The last place alone sees its whole past: the usual case in decoding.
        if bias is None and (mask.is_everything or (mask.is_causal and asked.grid.last_alone)):
            return Fast(fused(q, k, v), "fused-everything")
        # is_causal aligns the first query with the first key: wrong as soon as keys were cached.
        if bias is None and mask.is_causal and asked.grid.from_start:
            return Fast(fused(q, k, v, is_causal=True), "fused-causal")
        allowed = mask.on(asked.grid)
        # The kernel's answer for a row with no key is NaN: such rows see everything, then nothing.
        empty = ~allowed.any(dim=-1, keepdim=True)
        passing = allowed | empty
        added = passing if bias is None else bias.masked_fill(~passing, -torch.inf)
        out = fused(q, k, v, attn_mask=added)
        return Fast(out.masked_fill(empty, 0.0), "fused-dense")
