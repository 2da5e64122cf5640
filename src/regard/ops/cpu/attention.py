"""Attention kernels, forward and backward: dot-product (dot.c) and additive (additive.c).

    out = (softmax(score) · keep / keep_probability) v
    score = scale · q · k, or Σ_m w_m σ(q_m + k_m)

Shapes: b batch, h heads, i query, j key, m width that is scored, d width of the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.ops.cpu import library


class KernelDropout(NamedTuple):
    """Dropout of attention weights."""

    draws: Tensor
    "(b,h,i,j) int16"
    keep_threshold: int
    "Draws from here on keep their weight."
    keep_probability: float
    "Kept weights are divided by it."


@dataclass(frozen=True)
class KernelAttention:
    """Attention of queries (b,h,i,m) over keys (b,h,j,m) and values (b,h,j,d)."""

    causal: bool
    "Causal mask, which needs i = j; otherwise no mask."
    dropout: KernelDropout | None
    scale: float = 1.0
    "Of dot products."
    weight: Tensor | None = None
    "(h,m) of additive scores; None: dot products."

    @property
    def name(self) -> str:
        return "dot" if self.weight is None else "additive"


class KernelAttentionOutput(NamedTuple):
    out: Tensor
    "(b,h,i,d), in memory (b,i,h,d), as the output projection reads it"
    denominator: Tensor
    "(b,h,i): Σ_j 2^score, no maximum subtracted; may have over- or underflowed"


class AttentionGradients(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    weight: Tensor | None


def supports(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether a kernel takes these tensors; shapes are checked here, not in C."""
    if not (q.ndim == k.ndim == v.ndim == 4 and q.numel() and k.numel()):
        return False
    if not (q.shape[:2] == k.shape[:2] == v.shape[:2] and k.shape[2] == v.shape[2]):
        return False
    if q.shape[-1] != k.shape[-1] or not library.fills_vectors(q.shape[-1], v.shape[-1]):
        return False
    return library.supports(q, k, v)


def forward(q: Tensor, k: Tensor, v: Tensor, attention: KernelAttention) -> KernelAttentionOutput:
    q, k, v = map(_contiguous_rows, (q, k, v))
    out, denominator = _empty_heads(q, v.shape[-1]), q.new_empty(q.shape[:3])
    weights = [] if attention.weight is None else [attention.weight.contiguous()]
    common = _common_arguments(q, k, v, denominator, attention)
    library.run(f"regard_{attention.name}_forward", *_strided(q, k, v, out), *common, *weights)
    return KernelAttentionOutput(out, denominator)


def backward(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: KernelAttentionOutput,
    attention: KernelAttention,
) -> AttentionGradients:
    d_out, q, k, v = map(_contiguous_rows, (d_out, q, k, v))
    d_q, d_k, d_v = (_empty_heads(x, x.shape[-1]) for x in (q, k, v))
    weights, d_weight = [], None
    if attention.weight is not None:
        d_weight = q.new_empty(*q.shape[:2], q.shape[-1])  # per batch row
        weights = [attention.weight.contiguous(), d_weight]
    tensors = _strided(q, k, v, output.out, d_out, d_q, d_k, d_v)
    common = _common_arguments(q, k, v, output.denominator, attention)
    library.run(f"regard_{attention.name}_backward", *tensors, *common, *weights)
    return AttentionGradients(d_q, d_k, d_v, None if d_weight is None else d_weight.sum(dim=0))


def _contiguous_rows(x: Tensor) -> Tensor:
    """Kernels need the last dimension contiguous; the other strides are arbitrary."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _empty_heads(x: Tensor, width: int) -> Tensor:
    """(b,h,i,width), in memory (b,i,h,width)"""
    b, h, i, _ = x.shape
    return x.new_empty(b, i, h, width).transpose(1, 2)


def _strided(*tensors: Tensor) -> list[library.Argument]:
    """Each tensor, followed by its strides of batch, head and position."""
    arguments: list[library.Argument] = []
    for x in tensors:
        arguments += [x, *x.stride()[:3]]
    return arguments


def _common_arguments(
    q: Tensor, k: Tensor, v: Tensor, denominator: Tensor, attention: KernelAttention
) -> tuple[library.Argument, ...]:
    b, h, i, m = q.shape
    draws, keep_threshold, keep_probability = attention.dropout or (None, 0, 1.0)
    sizes = (b, h, i, k.shape[2], m, v.shape[-1], int(attention.causal))
    scales = (keep_threshold, attention.scale, keep_probability)
    return (denominator, draws, *sizes, *scales, torch.get_num_threads())
