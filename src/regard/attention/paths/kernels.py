"""Attention by regard's own CPU kernels, dot-product and additive, as autograd functions.

    out = (softmax(score) · keep / keep_probability) v

The kernels compute the softmax without subtracting the maximum: where a denominator over- or
underflows their output is discarded, and query blocks, which subtract it, are used instead. Shapes:
b batch, h heads, i query, j key, m width that is scored, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention.function import AttentionInputs
from regard.attention.paths.query_blocks import BlockedAttention
from regard.nn.dropout import keep_threshold
from regard.ops.cpu import attention as kernel
from regard.ops.softmax_exp2 import in_safe_range

MIN_QUERIES = 8
"With fewer queries, packing the keys takes longer than the kernel saves."


def supports(inputs: AttentionInputs, q: Tensor, k: Tensor) -> bool:
    """Whether a kernel takes these inputs, with scores computed from (b,h,i,m) and (b,h,j,m)."""
    mask, grid = inputs.mask, inputs.grid
    # torch reads this switch on the CPU too; where it is off, fused kernels are not wanted.
    if not torch.backends.cuda.flash_sdp_enabled():  # type: ignore[no-untyped-call]
        return False
    if inputs.bias is not None or q.shape[-2] < MIN_QUERIES:
        return False
    if not (mask.is_everything or (mask.is_causal and grid.from_start)):
        return False
    return inputs.q.shape[:3] == q.shape[:3] and kernel.supports(q, k, inputs.v)


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
    attention = kernel.KernelAttention(*_mask_and_dropout(blocked), scale=scale)
    with torch.no_grad():
        output = kernel.forward(q, k, v, replace(attention, weight=weight))
    if not in_safe_range(output.denominator):
        return None
    out: Tensor = _KernelAttentionFunction.apply(  # type: ignore[no-untyped-call]
        q, k, v, weight, output, attention
    )
    return out


def _mask_and_dropout(blocked: BlockedAttention) -> tuple[bool, kernel.KernelDropout | None]:
    draws, dropout = blocked.dropout_draws, None
    if draws is not None:
        dropout = kernel.KernelDropout(
            draws.values, keep_threshold(draws.p), blocked.keep_probability
        )
    return not blocked.mask.is_everything, dropout


class _KernelAttentionFunction(Function):
    """Attaches the kernel's backward pass to an output that is already computed."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        weight: Tensor | None,
        output: kernel.KernelAttentionOutput,
        attention: kernel.KernelAttention,
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, weight, *output)
        ctx.attention = attention
        return output.out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weight, *output = ctx.saved_tensors
        attention = replace(ctx.attention, weight=weight)
        return (
            *kernel.backward(d_out, q, k, v, kernel.KernelAttentionOutput(*output), attention),
            None,
            None,
        )
