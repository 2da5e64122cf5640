"""Attention by regard's own CPU kernels (`ops/attention.py`), dot-product and additive.

The kernels compute the softmax without subtracting the maximum: where a denominator over- or
underflows their output is discarded, and query blocks, which subtract it, are used instead. Shapes:
b batch, h heads, i query, j key, m width that is scored, d head width. Masks: True = may attend.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.function import AttentionInputs
from regard.attention.paths.query_blocks import BlockedAttention
from regard.nn.dropout import keep_threshold
from regard.ops import attention
from regard.ops.cpu import library
from regard.ops.softmax_exp2 import in_safe_range

MIN_QUERIES = 8
"With fewer queries, packing the keys takes longer than the kernel saves."


def supports(inputs: AttentionInputs, q: Tensor, k: Tensor) -> bool:
    """Whether a kernel takes these inputs, with scores computed from (b,h,i,m) and (b,h,j,m)."""
    mask, v = inputs.mask, inputs.v
    # The kernels' denominators are read, which a compiled graph cannot do.
    if not q.is_cpu or torch.compiler.is_compiling():
        return False
    # torch reads this switch on the CPU too; where it is off, fused kernels are not wanted.
    if not torch.backends.cuda.flash_sdp_enabled():  # type: ignore[no-untyped-call]
        return False
    if inputs.bias is not None or q.shape[-2] < MIN_QUERIES:
        return False
    if not (mask.is_everything or (mask.is_causal and inputs.grid.from_start)):
        return False
    if inputs.q.shape[:3] != q.shape[:3]:
        return False
    return library.in_use() and attention.fits(q, k, v)


def kernel_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocked: BlockedAttention,
    *,
    scale: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor | None:
    """(b,h,i,d), or None where a denominator over- or underflows. Scores are scale · q · k, or with
    a weight (h,m) weight · σ(q + k)."""
    out: Tensor
    denominator: Tensor
    settings = (
        *(blocked.draws, not blocked.mask.is_everything),
        *(keep_threshold(blocked.dropout), blocked.keep_probability),
    )
    if weight is None:
        out, denominator = attention.DOT(q, k, v, *settings, scale)
    else:
        out, denominator = attention.ADDITIVE(q, k, v, weight, *settings)
    return out if in_safe_range(denominator) else None
