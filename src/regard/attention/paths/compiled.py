"""Attention by kernels of our own, where there are some: dot-product and additive.

    out = (softmax(score) · kept / share) v

A kernel takes no score off before it raises: where a sum leaves the middle of what a float can
hold, it gives nothing, and the work is done in blocks of queries, which do. Shapes: b batch, h
heads, i query, j key, m width of what is scored, d head width.
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

FEWEST_QUERIES = 8
"Fewer do not pay for packing the keys."


def takes(asked: AttentionInputs, q: Tensor, k: Tensor) -> bool:
    """Whether what was asked for can be had of what is scored, (b,h,i,m) and (b,h,j,m)."""
    mask, grid = asked.mask, asked.grid
    # Also asked of processors; where it is off, somebody wants each product made by itself.
    if not torch.backends.cuda.flash_sdp_enabled():  # type: ignore[no-untyped-call]
        return False
    if asked.bias is not None or q.shape[-2] < FEWEST_QUERIES:
        return False
    if not (mask.is_everything or (mask.is_causal and grid.from_start)):
        return False
    return asked.q.shape[:3] == q.shape[:3] and kernel.supports(q, k, asked.v)


def dot_by_kernel(q: Tensor, k: Tensor, v: Tensor, setting: BlockedAttention) -> Tensor | None:
    """(b,h,i,d), None where sums leave what can be trusted"""
    scale = float(q.shape[-1] ** -0.5)
    return _attended(q, k, v, None, kernel.KernelAttention(*_of(setting), scale=scale))


def additive_by_kernel(
    query: Tensor, key: Tensor, weight: Tensor, v: Tensor, setting: BlockedAttention
) -> Tensor | None:
    """(b,h,i,d) by scores w · σ(query + key)"""
    return _attended(query, key, v, weight, kernel.KernelAttention(*_of(setting)))


def _of(setting: BlockedAttention) -> tuple[bool, kernel.KernelDropout | None]:
    chances, kept = setting.chances, None
    if chances is not None:
        kept = kernel.KernelDropout(
            chances.values, keep_threshold(chances.p), setting.keep_probability
        )
    return not setting.mask.is_everything, kept


def _attended(
    q: Tensor, k: Tensor, v: Tensor, weight: Tensor | None, asked: kernel.KernelAttention
) -> Tensor | None:
    with torch.no_grad():
        found = kernel.forward(q, k, v, replace(asked, weight=weight))
    if not in_safe_range(found.denominator):
        return None
    out: Tensor = _ByKernel.apply(q, k, v, weight, found, asked)  # type: ignore[no-untyped-call]
    return out


class _ByKernel(Function):
    """What was found, and the way back."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        weight: Tensor | None,
        found: kernel.KernelAttentionOutput,
        asked: kernel.KernelAttention,
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, weight, *found)
        ctx.asked = asked
        return found.out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weight, *found = ctx.saved_tensors
        asked = replace(ctx.asked, weight=weight)
        return (
            *kernel.backward(d_out, q, k, v, kernel.KernelAttentionOutput(*found), asked),
            None,
            None,
        )
