"""Attention functions: how scores are computed, become weights, and mix values.

    weights = normalise(scores(q, k) + bias, allowed)        out = mix(weights, v)

Shapes: b batch, h heads, i query, j key, d head width. Masks: True = may attend. `normalise`
receives the mask, so each attention function decides itself what a forbidden key means; a fully
masked query gets zeros, never NaN.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.cache import RecurrentState
from regard.attention.masks.mask import Grid, Mask
from regard.attention.token_positions import TokenPositions


class HeadShape(NamedTuple):
    """Sizes that an attention function is built for, and the layer it is in."""

    width: int
    "Head dim: the width of one head."
    heads: int
    context: int = 100
    "Maximum sequence length."
    layer: int = 0
    "Index of the layer, from 0."
    dropout: float = 0.0
    "Dropout rate of the attention weights in training."
    biases: bool = True
    "Whether linear layers have a bias."

    @property
    def model_width(self) -> int:
        return self.width * self.heads

    def split_heads(self, x: Tensor) -> Tensor:
        """(b,i,h·d) -> (b,h,i,d)"""
        return x.view(*x.shape[:2], -1, self.width).transpose(1, 2)


@dataclass(frozen=True)
class AttentionInputs:
    """The arguments of one attention."""

    q: Tensor
    "(b,h,i,d)"
    k: Tensor
    "(b,h,j,d)"
    v: Tensor
    "(b,h,j,d)"
    mask: Mask
    grid: Grid
    "Indices of queries and keys, on which the mask can be materialised."
    bias: Tensor | None
    "(b,h,i,j), added to the scores"
    dropout: float


class AttentionOutput(NamedTuple):
    out: Tensor
    "(b,h,i,d) of an attention function, (b,i,w) of a mixer"
    weights: Tensor | None
    "(b,h,i,j); None where they are not needed"
    path: str
    "The path taken: explicit, fused-causal, kernel, …"


class AttentionFunction(nn.Module, ABC):
    """Scores, a masked softmax, a weighted sum of values; kinds override what differs.

    `scores` depends on queries and keys alone, never on their positions. So attention can be
    computed on a piece of the row at a time; whatever depends on positions is a mask, a bias or a
    rotation.
    """

    supports_dropout = True
    "Whether attention weights can be dropped; not where no weights are computed."
    ignores_masked_keys = True
    "Whether masked keys could be left out without changing the output; false for broken kinds."

    @abstractmethod
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j)"""

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return masked_softmax(scores, allowed)

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        """(b,h,i,j), (b,h,j,d) -> (b,h,i,d)"""
        return weights @ v

    def restrict_mask(self, mask: Mask, positions: TokenPositions) -> Mask:
        """The mask this attention function applies: it may forbid more than `mask` does."""
        return mask

    def fast(self, inputs: AttentionInputs) -> AttentionOutput | None:
        """A faster path with the same result, or None where there is none for these inputs."""
        return None


class ScaledDotScores(AttentionFunction):
    """q · k / √d: the scores that several kinds share."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


class RecurrentAttentionFunction(AttentionFunction):
    """Attention whose past fits into a state of fixed size: decoding needs no KV cache."""

    @abstractmethod
    def advance(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Mask, state: RecurrentState
    ) -> Tensor:
        """Attend from new positions (b,h,i,d) over the past and themselves, and update the state.

        The mask is causal on its `structure.valid` keys, which cover the whole row."""


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the allowed keys; exact zeros elsewhere and in fully masked rows."""
    # A fully masked row is normalised as if all keys were allowed, then zeroed: −∞ throughout
    # gives NaN, in the backward pass even where the forward pass replaces it.
    empty = ~allowed.any(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~(allowed | empty), -torch.inf), dim=-1)
    return weights.masked_fill(~allowed, 0.0)
