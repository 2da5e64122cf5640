"""Attention without the 1/√d factor, as written on paper: softmax(K q)ᵀ V.

`attend` divides its scores by √d. Here the query is multiplied by √d beforehand, so that the
computation is still that of `attend`. Shapes: i queries, n keys, d width, e value width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction, AttentionOutput
from regard.attention.kinds.dot import DotProduct


def attend_unscaled(
    q: Tensor, keys: Tensor, values: Tensor, function: AttentionFunction | None = None
) -> AttentionOutput:
    """q (i,d) or (d,), keys (n,d), values (n,e) -> out (i,e) or (e,), weights (i,n) or (n,)."""
    rows = q.reshape(-1, q.shape[-1]) * math.sqrt(q.shape[-1])
    output = attend(
        rows[None, None], keys[None, None], values[None, None], function=function, need_weights=True
    )
    assert output.weights is not None
    shape = q.shape[:-1]
    return output._replace(
        out=output.out[0, 0].reshape(*shape, values.shape[-1]),
        weights=output.weights[0, 0].reshape(*shape, len(keys)),
    )


def unscaled_weights(q: Tensor, keys: Tensor, function: AttentionFunction | None = None) -> Tensor:
    """q (i,d) or (d,), keys (n,d) -> attention weights (i,n) or (n,)."""
    weights = attend_unscaled(q, keys, torch.zeros_like(keys), function).weights
    assert weights is not None
    return weights


def orthonormal_rows(count: int, width: int, *, seed: int) -> Tensor:
    """(count,width): random orthonormal rows."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randn(width, count, generator=generator, dtype=torch.float64)
    basis: Tensor = torch.linalg.qr(draws).Q.T.contiguous()
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
