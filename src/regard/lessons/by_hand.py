"""Attention as one writes it on paper: softmax(K q)ᵀ V, with no root in it.

`attend` divides its scores by √d. On paper a query is chosen by hand, and so is its length: the
root is given to the query beforehand, and what is computed is `attend` itself.
Shapes: n keys, d width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.attention.attend import AttentionOutput, attend
from regard.attention.function import AttentionFunction
from regard.attention.kinds.dot import DotProduct


def look_up(
    q: Tensor, keys: Tensor, values: Tensor, rule: AttentionFunction | None = None
) -> AttentionOutput:
    """q (i,d) or (d,), keys (n,d), values (n,e) -> out (i,e) or (e,), weights (i,n) or (n,)."""
    rows = q.reshape(-1, q.shape[-1]) * math.sqrt(q.shape[-1])
    attended = attend(
        rows[None, None], keys[None, None], values[None, None], rule=rule, want_weights=True
    )
    assert attended.weights is not None
    shape = q.shape[:-1]
    return attended._replace(
        out=attended.out[0, 0].reshape(*shape, values.shape[-1]),
        weights=attended.weights[0, 0].reshape(*shape, len(keys)),
    )


def weights_of(q: Tensor, keys: Tensor, rule: AttentionFunction | None = None) -> Tensor:
    """q (i,d) or (d,), keys (n,d) -> (i,n) or (n,): what the values would be mixed by."""
    weights = look_up(q, keys, torch.zeros_like(keys), rule).weights
    assert weights is not None
    return weights


def orthonormal(count: int, width: int, *, seed: int) -> Tensor:
    """(count,width): rows of length 1, at right angles to each other."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(width, count, generator=generator, dtype=torch.float64)
    basis: Tensor = torch.linalg.qr(drawn).Q.T.contiguous()
    return basis


def scores_of(q: Tensor, keys: Tensor) -> Tensor:
    """q (d,), keys (n,d) -> (n,): the inner products, as the rule of `attend` computes them."""
    root = math.sqrt(q.shape[-1])
    return DotProduct().scores((root * q)[None], keys)[0]


def spread_keys(count: int, width: int, *, seed: int) -> Tensor:
    """(count,width): keys of length 1 in random directions, no two of them close together."""
    generator = torch.Generator().manual_seed(seed)
    kept: list[Tensor] = []
    limit = 0.7
    while len(kept) < count:
        drawn = torch.randn(width, generator=generator, dtype=torch.float64)
        drawn /= drawn.norm()
        if all(float(drawn @ other) < limit for other in kept):
            kept.append(drawn)
        else:
            limit = min(limit + 1e-4, 0.9999)  # where there is no room left, closer ones will do
    return torch.stack(kept)


def names(count: int, letter: str = "k") -> list[str]:
    """k₁, k₂, …"""
    small = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    return [letter + str(number).translate(small) for number in range(1, count + 1)]
