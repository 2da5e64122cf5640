"""Scaled dot-product attention: the score of a key is its inner product with the query.

    score(q, k) = q · k / √d                                        Vaswani et al., 2017

Without the root the variance of the scores grows with d, the softmax saturates and its gradient
vanishes. The fast path is regard's own CPU kernel (`paths.kernels`) where it is built and faster,
otherwise torch's fused `scaled_dot_product_attention` (SDPA); blocks of queries where that has no
dropout on the CPU, or is slower; FlexAttention on a GPU under masks that SDPA knows no pattern of.
Shapes: b batch, h heads, i query, j key, d head width. Masks:
True = may attend.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F

from regard.attention.function import (
    AttentionFunction,
    AttentionInputs,
    AttentionOutput,
    HeadShape,
    ScaledDotScores,
)
from regard.attention.kinds import AttentionKind, kind
from regard.attention.paths import flex, kernels
from regard.attention.paths.dot_blocks import dot_blocks
from regard.attention.paths.query_blocks import BlockedAttention
from regard.ops.cpu import library

BLOCK_LENGTHS = range(320, 641)
MIN_BLOCK_PAIRS = 2**21
"""Where query blocks are faster than torch's kernel under a causal mask on the CPU: at length 512
1.3× with AVX-512, 1.1× with AVX2. Shorter rows and fewer pairs are dominated by call overhead; in
longer rows torch's kernel skips most forbidden pairs too."""


@kind("dot", cost="n² · d")
class Dot(AttentionKind):
    """Scaled dot-product: the standard attention of Transformers."""

    def build(self, shape: HeadShape) -> AttentionFunction:
        return DotProduct()


class DotProduct(ScaledDotScores):
    def fast(self, inputs: AttentionInputs) -> AttentionOutput:
        q, k, v, mask, bias = inputs.q, inputs.k, inputs.v, inputs.mask, inputs.bias
        by_kernel = library.REPLACES_MATMUL and kernels.supports(inputs, q, k)
        if by_kernel or _blocks_are_faster(inputs):
            blocked = BlockedAttention.from_inputs(inputs)
            if by_kernel:
                out = kernels.kernel_attention(q, k, v, blocked, scale=float(q.shape[-1] ** -0.5))
                if out is not None:
                    return AttentionOutput(out, None, "kernel")
            return AttentionOutput(dot_blocks(inputs, blocked), None, "query-blocks")
        fused = partial(F.scaled_dot_product_attention, dropout_p=inputs.dropout)
        # The last query alone attends to all keys: the usual case in decoding.
        if bias is None and (mask.is_everything or (mask.is_causal and inputs.grid.is_decode_step)):
            return AttentionOutput(fused(q, k, v), None, "fused-everything")
        # is_causal aligns the first query with the first key: wrong with cached keys.
        if bias is None and mask.is_causal and inputs.grid.from_start:
            return AttentionOutput(fused(q, k, v, is_causal=True), None, "fused-causal")
        if flex.supports(inputs):
            return AttentionOutput(flex.flex(inputs), None, "flex")
        allowed = mask.materialize(inputs.grid)
        # The kernel gives NaN for fully masked rows: they attend to all keys, then are zeroed.
        empty = ~allowed.any(dim=-1, keepdim=True)
        unmasked = allowed | empty
        attn_mask = unmasked if bias is None else bias.masked_fill(~unmasked, -torch.inf)
        out = fused(q, k, v, attn_mask=attn_mask)
        return AttentionOutput(out.masked_fill(empty, 0.0), None, "fused-dense")


def _blocks_are_faster(inputs: AttentionInputs) -> bool:
    b, h, length, _ = inputs.q.shape
    if inputs.q.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    if inputs.dropout:  # torch's kernel has none on the CPU
        return True
    if inputs.bias is not None or not (inputs.mask.is_causal and inputs.grid.from_start):
        return False
    # Half precision has its own kernels in torch.
    if inputs.q.dtype not in (torch.float32, torch.float64):
        return False
    return length in BLOCK_LENGTHS and b * h * length * length >= MIN_BLOCK_PAIRS
