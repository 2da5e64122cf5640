"""Attention by kernels of our own, forward and back: dot-product (dot.c) and additive (additive.c).

    out = (softmax(score) · kept / share) v        score = scale · q · k, or Σ_m w_m σ(q_m + k_m)

Shapes: b batch, h heads, i query, j key, m width of what is scored, d of what is mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.ops.cpu import library


class KernelDropout(NamedTuple):
    """What dropout does to the weights."""

    draws: Tensor
    "(b,h,i,j) int16"
    least: int
    "A draw from here on keeps its weight."
    share: float
    "What is kept is divided by it."


@dataclass(frozen=True)
class KernelAttention:
    """How queries (b,h,i,m), keys (b,h,j,m) and values (b,h,j,d) are to meet."""

    causal: bool
    "Of as many queries as keys; otherwise everything is seen."
    kept: KernelDropout | None
    scale: float = 1.0
    "Of dot products."
    weight: Tensor | None = None
    "(h,m): scores are additive."

    @property
    def name(self) -> str:
        return "dot" if self.weight is None else "additive"


class KernelAttentionOutput(NamedTuple):
    out: Tensor
    "(b,h,i,d), in memory (b,i,h,d), as the layers around attention want it"
    mass: Tensor
    "(b,h,i): what weights were divided by, 2^score summed; not mended where it left the floats"


class AttentionGradients(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    weight: Tensor | None


def supports(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether they fit together, which a kernel does not look at, and are worth it."""
    if not (q.ndim == k.ndim == v.ndim == 4 and q.numel() and k.numel()):
        return False
    if not (q.shape[:2] == k.shape[:2] == v.shape[:2] and k.shape[2] == v.shape[2]):
        return False
    if q.shape[-1] != k.shape[-1] or not library.fills_vectors(q.shape[-1], v.shape[-1]):
        return False
    return library.supports(q, k, v)


def forward(q: Tensor, k: Tensor, v: Tensor, asked: KernelAttention) -> KernelAttentionOutput:
    q, k, v = map(_by_place, (q, k, v))
    out, mass = _room(q, v.shape[-1]), q.new_empty(q.shape[:3])
    weights = [] if asked.weight is None else [asked.weight.contiguous()]
    setting = _setting(q, k, v, mass, asked)
    library.run(f"regard_{asked.name}_forward", *_rows(q, k, v, out), *setting, *weights)
    return KernelAttentionOutput(out, mass)


def backward(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attended: KernelAttentionOutput,
    asked: KernelAttention,
) -> AttentionGradients:
    d_out, q, k, v = map(_by_place, (d_out, q, k, v))
    d_q, d_k, d_v = (_room(x, x.shape[-1]) for x in (q, k, v))
    weights, d_weight = [], None
    if asked.weight is not None:
        d_weight = q.new_empty(*q.shape[:2], q.shape[-1])  # of each row
        weights = [asked.weight.contiguous(), d_weight]
    rows = _rows(q, k, v, attended.out, d_out, d_q, d_k, d_v)
    setting = _setting(q, k, v, attended.mass, asked)
    library.run(f"regard_{asked.name}_backward", *rows, *setting, *weights)
    return AttentionGradients(d_q, d_k, d_v, None if d_weight is None else d_weight.sum(dim=0))


def _by_place(x: Tensor) -> Tensor:
    """The numbers of a place have to lie side by side; everything else may lie anywhere."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _room(x: Tensor, width: int) -> Tensor:
    b, h, i, _ = x.shape
    return x.new_empty(b, i, h, width).transpose(1, 2)


def _rows(*tensors: Tensor) -> list[library.Argument]:
    """Of each where it begins, and how far apart its batch rows, heads and places lie."""
    found: list[library.Argument] = []
    for x in tensors:
        found += [x, *x.stride()[:3]]
    return found


def _setting(
    q: Tensor, k: Tensor, v: Tensor, mass: Tensor, asked: KernelAttention
) -> tuple[library.Argument, ...]:
    b, h, i, m = q.shape
    draws, least, share = asked.kept or (None, 0, 1.0)
    sizes = (b, h, i, k.shape[2], m, v.shape[-1], int(asked.causal))
    return (mass, draws, *sizes, least, asked.scale, share, torch.get_num_threads())
