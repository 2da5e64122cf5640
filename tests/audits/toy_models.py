"""Small Transformers with exchangeable parts, clean unless a part is broken on purpose.

Shapes: b batch, h heads, i query, j key, d head width, w model width. Masks: True = may attend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.audits.subject import Subject

VOCABULARY = 19
LONGEST = 40


@dataclass(frozen=True)
class Place:
    """Where in the model, and how it is run, when a mask is asked for."""

    layer: int
    places: int
    past: int = 0
    training: bool = False
    wants_weights: bool = False
    valid: Tensor | None = None
    ids: Tensor | None = None

    @property
    def i(self) -> Tensor:
        return torch.arange(self.past, self.past + self.places)[:, None]

    @property
    def j(self) -> Tensor:
        return torch.arange(self.past + self.places)[None, :]


def causal(place: Place) -> Tensor:
    """(b or 1, h or 1, i, j)"""
    allowed = (place.j <= place.i)[None, None]
    return allowed if place.valid is None else allowed & place.valid[:, None, None, :]


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, -math.inf).softmax(dim=-1).nan_to_num(0.0)


def unchanged(x: Tensor, place: Place) -> Tensor:
    return x


def counted_from_start(place: Place) -> Tensor:
    return torch.arange(place.past, place.past + place.places)


def scaled(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


@dataclass(frozen=True)
class Parts:
    """What a toy is made of."""

    mask: Callable[[Place], Tensor] = causal
    normalise: Callable[[Tensor, Tensor], Tensor] = masked_softmax
    scores: Callable[[Tensor, Tensor], Tensor] = scaled
    over_time: Callable[[Tensor, Place], Tensor] = unchanged
    "Applied to (b,t,w) between the blocks."
    positions: Callable[[Place], Tensor] = counted_from_start
    extra: Callable[[int], nn.Module] | None = None
    "A module (b,t,w) -> (b,t,w) added to what the first block gives; gets the width."
    layers: int = 1
    heads: int = 2
    width: int = 16
    dropout: float = 0.0
    norm: Callable[[int], nn.Module] = nn.LayerNorm
    post_norm: bool = False
    activation: Callable[[Tensor], Tensor] = F.gelu
    learned_positions: bool = True
    scale: float = 1.0
    "Multiplies the starting weights."
    max_length: int = field(default=LONGEST)


class Block(nn.Module):
    def __init__(self, parts: Parts, layer: int) -> None:
        super().__init__()
        self.parts, self.layer = parts, layer
        self.qkv = nn.Linear(parts.width, 3 * parts.width)
        self.out = nn.Linear(parts.width, parts.width)
        self.wide, self.narrow = nn.Linear(parts.width, 32), nn.Linear(32, parts.width)
        self.norms = nn.ModuleList([parts.norm(parts.width) for _ in range(2)])
        self.dropout = nn.Dropout(parts.dropout)

    def forward(self, x: Tensor, place: Place, cache: dict[int, Any] | None) -> Tensor:
        for norm, part in zip(self.norms, (self.attend, self.feed), strict=True):
            if self.parts.post_norm:
                x = norm(x + self.dropout(part(x, place, cache)))
            else:
                x = x + self.dropout(part(norm(x), place, cache))
        return x

    def attend(self, x: Tensor, place: Place, cache: dict[int, Any] | None) -> Tensor:
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.parts.heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            before = cache.get(self.layer)
            if before is not None:
                k, v = torch.cat([before[0], k], 2), torch.cat([before[1], v], 2)
            cache[self.layer] = (k, v)
        weights = self.parts.normalise(self.parts.scores(q, k), self.parts.mask(place))
        mixed = self.dropout(weights) @ v
        return self.out(mixed.transpose(1, 2).reshape(b, t, w))

    def feed(self, x: Tensor, place: Place, cache: dict[int, Any] | None) -> Tensor:
        return self.narrow(self.parts.activation(self.wide(x)))


class Toy(nn.Module):
    """ids (b,t) -> scores (b,t,v)"""

    def __init__(self, parts: Parts | None = None, *, seed: int = 0) -> None:
        super().__init__()
        self.parts = parts or Parts()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.tokens = nn.Embedding(VOCABULARY, self.parts.width)
            self.places = nn.Embedding(2 * self.parts.max_length, self.parts.width)
            self.blocks = nn.ModuleList(Block(self.parts, n) for n in range(self.parts.layers))
            self.extra = None if self.parts.extra is None else self.parts.extra(self.parts.width)
            self.head = nn.Linear(self.parts.width, VOCABULARY)
        with torch.no_grad():
            for block in self.blocks:
                for linear in (block.qkv, block.out):
                    linear.weight.mul_(self.parts.scale)

    def forward(
        self,
        ids: Tensor,
        *,
        valid: Tensor | None = None,
        cache: dict[int, Any] | None = None,
        past: int = 0,
        wants_weights: bool = False,
    ) -> Tensor:
        if past + ids.shape[1] > self.parts.max_length:
            raise ValueError(
                f"rows of {past + ids.shape[1]} places, {self.parts.max_length} at most"
            )
        x, length = self.tokens(ids), ids.shape[1]
        place = Place(0, length, past, self.training, wants_weights, valid, ids)
        if self.parts.learned_positions:
            x = x + self.places(self.parts.positions(place))
        for n, block in enumerate(self.blocks):
            here = Place(n, length, past, self.training, wants_weights, valid, ids)
            x = self.parts.over_time(block(x, here, cache), here)
            if n == 0 and self.extra is not None:
                x = x + self.extra(x)
        return self.head(x)


def subject_around(toy: Toy) -> Subject:
    """A toy with all it can do: padding, cache, weights."""

    def cached(module: Toy, ids: Tensor, cuts: Sequence[int]) -> Tensor:
        cache: dict[int, Any] = {}
        ends = zip((0, *cuts), (*cuts, ids.shape[1]), strict=True)
        return torch.cat([module(ids[:, a:b], cache=cache, past=a) for a, b in ends], dim=1)

    return Subject(
        "toy",
        lambda module, ids, valid: module(ids, valid=valid),
        toy,
        vocabulary=VOCABULARY,
        max_length=toy.parts.max_length,
        embedding="tokens",
        accepts_padding_mask=True,
        run_cached=cached,
        run_with_weights=lambda module, ids: module(ids, wants_weights=True),
    )


def bare(toy: Toy) -> Subject:
    """The same with nothing but ids in and outputs out."""
    return Subject(
        "bare toy",
        lambda module, ids, valid: module(ids),
        toy,
        vocabulary=VOCABULARY,
        max_length=toy.parts.max_length,
        embedding="tokens",
    )
