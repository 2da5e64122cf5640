"""Attention without the 1/√d factor, as written on paper: softmax(K q)ᵀ V.

`attend` divides its scores by √d. Here the query is multiplied by √d beforehand, so that the
computation is still that of `attend`. Shapes: i queries, n keys, d width, e value width.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction
from regard.attention.kinds.dot import DotProduct
from regard.attention.masks.mask import Mask
from regard.lessons.draws import standard_normal
from regard.lessons.exercise import Heatmap, Mark, max_difference


class SequenceAttention(NamedTuple):
    """Attention of one head over one sequence."""

    out: Tensor
    weights: Tensor


def attend_sequence(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Mask | None = None,
    function: AttentionFunction | None = None,
    *,
    bias: Tensor | None = None,
) -> SequenceAttention:
    """`attend` without batch and heads: q (i,d), keys (n,d), values (n,e), bias (i,n)."""
    attended = attend(
        q[None, None],
        keys[None, None],
        values[None, None],
        mask,
        function,
        bias=None if bias is None else bias[None, None],
        need_weights=True,
    )
    assert attended.weights is not None
    return SequenceAttention(attended.out[0, 0], attended.weights[0, 0])


def attend_unscaled(
    q: Tensor, keys: Tensor, values: Tensor, function: AttentionFunction | None = None
) -> SequenceAttention:
    """q (i,d) or (d,), keys (n,d), values (n,e) -> out (i,e) or (e,), weights (i,n) or (n,)."""
    rows = q.reshape(-1, q.shape[-1]) * math.sqrt(q.shape[-1])
    found = attend_sequence(rows, keys, values, function=function)
    return SequenceAttention(*(each.reshape(*q.shape[:-1], -1) for each in found))


def unscaled_weights(q: Tensor, keys: Tensor, function: AttentionFunction | None = None) -> Tensor:
    """q (i,d) or (d,), keys (n,d) -> attention weights (i,n) or (n,)."""
    return attend_unscaled(q, keys, torch.zeros_like(keys), function).weights


def mark_attention(found: SequenceAttention, goal: Tensor, tolerance: float, feedback: str) -> Mark:
    """Mark the output of one query or several by its distance from the goal; weights are drawn."""
    rows = found.weights.reshape(-1, found.weights.shape[-1])
    queries = ["q"] if found.weights.ndim == 1 else subscripted(len(rows), "q")
    attention_map = Heatmap(queries, subscripted(rows.shape[1]), rows)
    return Mark(max_difference(found.out, goal), tolerance, feedback, attention_map)


def orthonormal_rows(count: int, width: int, *, seed: int) -> Tensor:
    """(count,width): random orthonormal rows."""
    basis: Tensor = torch.linalg.qr(standard_normal(width, count, seed=seed)).Q.T.contiguous()
    return basis


def unscaled_scores(q: Tensor, keys: Tensor) -> Tensor:
    """q (d,), keys (n,d) -> (n,): inner products, computed by `DotProduct.scores`."""
    root = math.sqrt(q.shape[-1])
    return DotProduct().scores((root * q)[None], keys)[0]


def separated_keys(count: int, width: int, *, seed: int) -> Tensor:
    """(count,width): unit keys in random directions, pairwise cosines below 0.7 if possible."""
    generator = torch.Generator().manual_seed(seed)
    keys: list[Tensor] = []
    max_cosine = 0.7
    while len(keys) < count:
        key = torch.randn(width, generator=generator, dtype=torch.float64)
        key /= key.norm()
        if all(float(key @ other) < max_cosine for other in keys):
            keys.append(key)
        else:
            max_cosine = min(max_cosine + 1e-4, 0.9999)  # relaxed until `count` keys fit
    return torch.stack(keys)


def subscripted(count: int, letter: str = "k") -> list[str]:
    """k₁, k₂, …"""
    subscripts = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    return [letter + str(number).translate(subscripts) for number in range(1, count + 1)]
