"""A loss term is a sum and the weight it is to be divided by, kept apart.

Kept apart, terms of several micro-batches add up exactly to those of the whole batch; the training
loop divides once, by the weight of the whole window.
"""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class LossTerm(NamedTuple):
    sum: Tensor
    weight: Tensor


def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """−log p(target) in nats at each place: (b,t,v), (b,t) -> (b,t)."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(
        targets
    )


def weighted(losses: Tensor, weights: Tensor) -> LossTerm:
    return LossTerm((losses * weights).sum(), weights.sum())
