"""A rule makes a kind of attention itself: how scores arise, become weights, and mix values.

    weights = normalise(scores(q, k), allowed)        out = mix(weights, v)

Shapes: b batch, h heads, i query, j key, d head width. Masks: True = may attend. The normaliser
receives the mask, so each rule says itself what "forbidden" means; a query that may attend to
nothing gets zeros, never NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn


class HeadShape(NamedTuple):
    """The size a rule is built for."""

    width: int
    "Width of one head."
    heads: int


class Rule(nn.Module, ABC):
    """Scores, then a masked softmax, then a weighted sum; a kind overrides what differs."""

    is_scaled_dot_product = False
    "True lets `attend` use torch's fused kernels, which compute exactly that rule."

    @abstractmethod
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j)"""

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return masked_softmax(scores, allowed)

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        """(b,h,i,j), (b,h,j,d) -> (b,h,i,d)"""
        return weights @ v


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the allowed keys; exact zeros elsewhere and in rows with no allowed key."""
    # An empty row is normalised as if all were allowed and then zeroed: −∞ throughout would be
    # NaN, in the backward pass even where the forward pass hides it.
    empty = ~allowed.any(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~(allowed | empty), -torch.inf), dim=-1)
    return weights.masked_fill(~allowed, 0.0)
