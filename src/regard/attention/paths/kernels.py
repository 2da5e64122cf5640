"""Attention by regard's own CPU kernels, dot-product (ops/cpu/dot.c) and additive (additive.c).

    out = (softmax(score) · keep / keep_probability) v
    score = scale · q · k, or Σ_m w_m σ(q_m + k_m)

The kernels compute the softmax without subtracting the maximum: where a denominator over- or
underflows their output is discarded, and query blocks, which subtract it, are used instead. Shapes:
b batch, h heads, i query, j key, m width that is scored, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention.function import AttentionInputs
from regard.attention.paths.query_blocks import BlockedAttention
from regard.nn.dropout import keep_threshold
from regard.ops.cpu import library
from regard.ops.softmax_exp2 import in_safe_range

MIN_QUERIES = 8
"With fewer queries, packing the keys takes longer than the kernel saves."


def supports(inputs: AttentionInputs, q: Tensor, k: Tensor) -> bool:
    """Whether a kernel takes these inputs, with scores computed from (b,h,i,m) and (b,h,j,m);
    shapes are checked here, not in C."""
    mask, v = inputs.mask, inputs.v
    # torch reads this switch on the CPU too; where it is off, fused kernels are not wanted.
    if not torch.backends.cuda.flash_sdp_enabled():  # type: ignore[no-untyped-call]
        return False
    if inputs.bias is not None or q.shape[-2] < MIN_QUERIES:
        return False
    if not (mask.is_everything or (mask.is_causal and inputs.grid.from_start)):
        return False
    if inputs.q.shape[:3] != q.shape[:3] or q.shape[-1] != k.shape[-1]:
        return False
    return (
        q.ndim == k.ndim == v.ndim == 4
        and q.shape[:2] == k.shape[:2] == v.shape[:2]
        and k.shape[2] == v.shape[2]
        and bool(q.numel() and k.numel())
        and library.fills_vectors(q.shape[-1], v.shape[-1])
        and library.supports(q, k, v)
    )


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
    out, denominator = _KernelAttention.apply(  # type: ignore[no-untyped-call]
        q, k, v, weight, blocked, scale
    )
    return out if in_safe_range(denominator) else None


class _KernelAttention(Function):
    """(b,h,i,d) in memory (b,i,h,d), as the output projection reads it; and the denominators
    (b,h,i): Σ_j 2^score, which may have over- or underflowed."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        weight: Tensor | None,
        blocked: BlockedAttention,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        q, k, v = map(_contiguous_rows, (q, k, v))
        weight = None if weight is None else weight.contiguous()
        out, denominator = _empty_heads(q, v.shape[-1]), q.new_empty(q.shape[:3])
        causal = int(not blocked.mask.is_everything)
        ctx.common = (
            *(blocked.draws, *q.shape[:3], k.shape[2], q.shape[-1], v.shape[-1], causal),
            *(keep_threshold(blocked.dropout), scale, blocked.keep_probability),
        )
        ctx.kernel = "regard_dot" if weight is None else "regard_additive"
        tensors = _strided(q, k, v, out, *4 * [None])
        shared = (weight, None, denominator, *ctx.common, torch.get_num_threads())
        library.run(f"{ctx.kernel}_forward", *tensors, *shared)
        ctx.save_for_backward(q, k, v, weight, out, denominator)
        ctx.mark_non_differentiable(denominator)
        return out, denominator

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weight, out, denominator = ctx.saved_tensors
        d_q, d_k, d_v = (_empty_heads(x, x.shape[-1]) for x in (q, k, v))
        # Per batch row.
        d_weight = None if weight is None else q.new_empty(*q.shape[:2], q.shape[-1])
        tensors = _strided(q, k, v, out, _contiguous_rows(d_out), d_q, d_k, d_v)
        shared = (weight, d_weight, denominator, *ctx.common, torch.get_num_threads())
        library.run(f"{ctx.kernel}_backward", *tensors, *shared)
        return d_q, d_k, d_v, None if d_weight is None else d_weight.sum(dim=0), None, None


def _contiguous_rows(x: Tensor) -> Tensor:
    """Kernels need the last dimension contiguous; the other strides are arbitrary."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _empty_heads(x: Tensor, width: int) -> Tensor:
    """(b,h,i,width), in memory (b,i,h,width)"""
    b, h, i, _ = x.shape
    return x.new_empty(b, i, h, width).transpose(1, 2)


def _strided(*tensors: Tensor | None) -> list[library.Argument]:
    """Each tensor, followed by its strides of batch, head and position."""
    arguments: list[library.Argument] = []
    for x in tensors:
        arguments += (None, 0, 0, 0) if x is None else (x, *x.stride()[:3])
    return arguments
