"""A rule makes a kind of attention itself: how scores arise, become weights, and mix values.

    weights = normalise(scores(q, k) + bias, allowed)        out = mix(weights, v)

Shapes: b batch, h heads, i query, j key, d head width. Masks: True = may attend. The normaliser
receives the mask, so each rule says itself what "forbidden" means; a query that may attend to
nothing gets zeros, never NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.cache import RecurrentState
from regard.attention.masks.mask import Grid, Mask
from regard.attention.token_positions import TokenPositions


class HeadShape(NamedTuple):
    """The size a rule is built for, and where in the model it stands."""

    width: int
    "Width of one head."
    heads: int
    context: int = 100
    "The most places a row can have."
    layer: int = 0
    "Number of the layer, from 0."
    dropout: float = 0.0
    "Share of the attention weights dropped in training."
    biases: bool = True
    "Whether linear layers add a bias."

    @property
    def model_width(self) -> int:
        return self.width * self.heads


@dataclass(frozen=True)
class AttentionInputs:
    """One question to a rule: these queries, over these keys, where they stand."""

    q: Tensor
    "(b,h,i,d)"
    k: Tensor
    "(b,h,j,d)"
    v: Tensor
    "(b,h,j,d)"
    mask: Mask
    grid: Grid
    "The places of queries and keys, on which the mask can be written out."
    bias: Tensor | None
    "(b,h,i,j), added to the scores"
    dropout: float


class FastOutput(NamedTuple):
    """What a fast path gives, and its name."""

    out: Tensor
    path: str


class AttentionFunction(nn.Module, ABC):
    """Scores, then a masked softmax, then a weighted sum; a kind overrides what differs.

    `scores` sees queries and keys alone, never their places: so a rule can be computed on a part
    of the row at a time, and whatever depends on places comes in as mask, bias or rotation.
    """

    drops_weights = True
    "Whether dropout on attention weights makes sense; not where no weights are ever made."
    ignores_forbidden = True
    "Whether keys outside the mask could as well not be there; a broken rule says no."

    @abstractmethod
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j)"""

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return masked_softmax(scores, allowed)

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        """(b,h,i,j), (b,h,j,d) -> (b,h,i,d)"""
        return weights @ v

    def narrow(self, mask: Mask, positions: TokenPositions) -> Mask:
        """The mask this rule really follows: a rule may forbid more than it is told to."""
        return mask

    def fast(self, asked: AttentionInputs) -> FastOutput | None:
        """A quicker way to the same answer, or None where there is none for this case."""
        return None


class RecurrentAttentionFunction(AttentionFunction):
    """A rule whose past fits into a state of fixed size, so decoding needs no keys and values."""

    @abstractmethod
    def advance(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Mask, state: RecurrentState
    ) -> Tensor:
        """Attend with new places (b,h,i,d) over the past and themselves; the state takes them in.

        The mask is causal on its `structure.valid` keys, which speaks of the whole row."""


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the allowed keys; exact zeros elsewhere and in rows with no allowed key."""
    # An empty row is normalised as if all were allowed and then zeroed: −∞ throughout would be
    # NaN, in the backward pass even where the forward pass hides it.
    empty = ~allowed.any(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~(allowed | empty), -torch.inf), dim=-1)
    return weights.masked_fill(~allowed, 0.0)
