"""Loss terms: what a model's forward returns, each a weighted sum and the weight to divide it by.

Kept apart, the terms of several micro-batches add up exactly to those of the whole batch.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from regard.ops.cross_entropy import weighted_cross_entropy


class LossTerm(NamedTuple):
    sum: Tensor
    weight: Tensor


def token_loss_term(
    x: Tensor, table: Tensor, *, targets: Tensor, weights: Tensor, smoothing: float = 0.0
) -> LossTerm:
    """Cross-entropy of logits x · tableᵀ; x (…,w), table (v,w), targets and weights (…)."""
    total = weighted_cross_entropy(x, table, targets=targets, weights=weights, smoothing=smoothing)
    return LossTerm(total, weights.sum())
