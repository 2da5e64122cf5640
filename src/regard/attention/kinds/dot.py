"""Scaled dot-product attention: a key counts by its inner product with the query.

    score(q, k) = q · k / √d                                        Vaswani et al., 2017

Without the root the variance of the scores grows with d, the softmax saturates and its gradient
vanishes. The fast path is a kernel of our own where it was built and pays (`by_kernel`), otherwise
torch's fused one; blocks of queries where that has no dropout, or is slower than they are.
Shapes: b batch, h heads, i query, j key, d head width.
"""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.function import AttentionFunction, AttentionInputs, FastOutput, HeadShape
from regard.attention.kinds import AttentionKind, kind
from regard.attention.paths import compiled
from regard.attention.paths.dot_blocks import dot_in_blocks, in_blocks
from regard.attention.paths.query_blocks import BlockedAttention

ROWS_FOR_BLOCKS = range(320, 641)
PAIRS_FOR_BLOCKS = 2**21
"""Under a causal mask blocks of queries are quicker than torch's kernel on a processor: at 512
places 1.3 times with AVX-512, 1.1 times with AVX2. Shorter rows and fewer pairs do not pay for the
calls; in longer rows torch's kernel leaves out most of what is forbidden as well."""


@kind("dot", cost="n² · d")
class Dot(AttentionKind):
    """Scaled dot-product: the standard of every Transformer."""

    def build(self, shape: HeadShape) -> AttentionFunction:
        return DotProduct()


class DotProduct(AttentionFunction):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j)"""
        return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])

    def fast(self, asked: AttentionInputs) -> FastOutput:
        q, k, v, mask, bias = asked.q, asked.k, asked.v, asked.mask, asked.bias
        if compiled.takes(asked, q, k):
            setting = BlockedAttention.of(asked)
            out = compiled.dot_by_kernel(q, k, v, setting)
            if out is None:
                return FastOutput(in_blocks(q, k, v, None, setting), "query-blocks")
            return FastOutput(out, "kernel")
        if q.device.type == "cpu" and (asked.dropout or _blocks_pay(asked)):
            return FastOutput(dot_in_blocks(asked), "query-blocks")
        fused = partial(F.scaled_dot_product_attention, dropout_p=asked.dropout)
        # The last place alone sees its whole past: the usual case in decoding.
        if bias is None and (mask.is_everything or (mask.is_causal and asked.grid.last_alone)):
            return FastOutput(fused(q, k, v), "fused-everything")
        # is_causal aligns the first query with the first key: wrong as soon as keys were cached.
        if bias is None and mask.is_causal and asked.grid.from_start:
            return FastOutput(fused(q, k, v, is_causal=True), "fused-causal")
        allowed = mask.on(asked.grid)
        # The kernel's answer for a row with no key is NaN: such rows see everything, then nothing.
        empty = ~allowed.any(dim=-1, keepdim=True)
        passing = allowed | empty
        added = passing if bias is None else bias.masked_fill(~passing, -torch.inf)
        out = fused(q, k, v, attn_mask=added)
        return FastOutput(out.masked_fill(empty, 0.0), "fused-dense")


def _blocks_pay(asked: AttentionInputs) -> bool:
    b, h, positions, _ = asked.q.shape
    if asked.bias is not None or not (asked.mask.is_causal and asked.grid.from_start):
        return False
    # Half precision has kernels of its own.
    if asked.q.dtype not in (torch.float32, torch.float64):
        return False
    return positions in ROWS_FOR_BLOCKS and b * h * positions * positions >= PAIRS_FOR_BLOCKS
