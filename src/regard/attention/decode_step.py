"""The newest place of each row, read alone: what decoding does for every token that it writes.

It is the pass of `MultiHeadAttention` over one place with a cache, which is its oracle, without
what that pass does anew in each layer: queries, keys and values are one product, and what may be
seen is written out once a step, for all layers. Shapes: b rows, h heads, j key, d head width, w
model width. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.cache import KVCache, LayerCache
from regard.attention.function import RecurrentAttentionFunction
from regard.attention.kinds.dot import DotProduct
from regard.attention.masks.mask import Mask
from regard.attention.mixer import Mixer
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.token_positions import TokenPositions
from regard.nn.packed_linear import pack_layers


@dataclass(frozen=True)
class DecodeMask:
    """What one place of each row may see: the same in every layer."""

    written_out: Callable[[], Mask]
    "Few kinds of attention ask for the mask itself."
    place: int
    "Where it stands among the keys."
    added: Tensor | None
    "(b or 1,1,1,j): 0 where it may attend and −∞ elsewhere; None where it sees everything."
    says_all: bool = True
    "Whether `added` says all there is to say: no row is blind, and no head sees otherwise."

    @classmethod
    def of(cls, mask: Mask, *, place: int, keys: int, dtype: torch.dtype) -> DecodeMask:
        """From `place`, over so many keys."""
        structure, last = mask.structure, place + 1 == keys
        if not (structure.pattern == "everything" or (structure.pattern == "causal" and last)):
            return cls(lambda: mask, place, None, says_all=False)
        # With either pattern the last place sees every key that may be seen at all.
        return cls.of_tokens(structure.valid, lambda: mask, place=place, dtype=dtype)

    @classmethod
    def of_tokens(
        cls, valid: Tensor | None, mask: Callable[[], Mask], *, place: int, dtype: torch.dtype
    ) -> DecodeMask:
        """From `place`, which the mask lets see every key that holds a token: (b,j), None where
        all do."""
        if valid is None:
            return cls(mask, place, None)
        added = torch.where(valid, 0.0, -torch.inf).to(dtype)[:, None, None]
        # The newest place sees itself; a source may have no place that holds a token.
        seeing = valid.select(1, -1) if place + 1 == valid.shape[1] else valid.any(dim=1)
        return cls(mask, place, added, says_all=bool(seeing.all()))

    @property
    def mask(self) -> Mask:
        return self.written_out()


class DecodeStep:
    """The newest place of each row: where it stands, and what it sees."""

    def __init__(
        self,
        rows: int,
        position_ids: Tensor,
        own: DecodeMask,
        *,
        source: DecodeMask | None = None,
        positions: Callable[[], TokenPositions],
    ) -> None:
        self.rows = rows
        self.position_ids = position_ids
        "(b or 1,1)"
        self.own = own
        self.source = source
        self._positions = positions

    @cached_property
    def positions(self) -> TokenPositions:
        """Of the whole rows, which few kinds of attention ask for."""
        return self._positions()


Look = Callable[[Tensor, DecodeStep, LayerCache], Tensor]
"""One place of each row, having looked; a cache of its own past takes it in. (b,w) -> (b,w), and of
one row alone (w) -> (w), as in a `Product`."""


def build_attention_step(mixer: Mixer, *, laid_out_for: int) -> Look:
    """A mixer for one place of each row at a time; `laid_out_for`: see `pack_layers`."""
    if isinstance(mixer, MultiHeadAttention) and not isinstance(
        mixer.rule, RecurrentAttentionFunction
    ):
        return SelfAttentionStep(mixer, laid_out_for=laid_out_for)

    def look(x: Tensor, newest: DecodeStep, cache: LayerCache) -> Tensor:
        one = x.view(newest.rows, 1, -1)
        attended = mixer(one, mask=newest.own.mask, positions=newest.positions, cache=cache)
        out: Tensor = attended.out
        return out.view(x.shape)

    return look


class SelfAttentionStep:
    """At one's own past, which the cache holds."""

    def __init__(self, attention: MultiHeadAttention, *, laid_out_for: int) -> None:
        layers = [attention.query, attention.key, attention.value]
        there = [layer for layer in layers if layer is not None]
        self.project = pack_layers(there, laid_out_for=laid_out_for)
        self.join = pack_layers([attention.out], laid_out_for=laid_out_for)
        self.mix = Mix(attention)
        self.attention = attention
        self.relation = attention.relation
        self.width = attention.shape.width
        self.heads = [layer.out_features // self.width for layer in there]
        self.looks_plainly = self.relation is None and len(there) == 3 and self.mix.fused

    def __call__(self, x: Tensor, newest: DecodeStep, cache: LayerCache) -> Tensor:
        assert isinstance(cache, KVCache)
        made = self.project(x).view(newest.rows, -1, 1, self.width)
        if self.looks_plainly and newest.own.says_all and cache.takes_newest(made):
            out = cache.look_from_newest(made, added=newest.own.added)
            return self.join(out.view(-1) if newest.rows == 1 else out)
        # Where matrices are shared, a part stands for two or three.
        parts = torch.split_with_sizes(made, self.heads, dim=1)
        q, k, v = parts[0], parts[1 if len(parts) == 3 else 0], parts[-1]
        bias = None
        if self.relation is not None:
            q = self.relation.rotate(q, newest.position_ids)
            k = self.relation.rotate(k, newest.position_ids)
            bias = self.attention.distance_bias(1, newest.positions)
        k, v = cache.extend(k, v)
        return self.join(self.mix(q, k, v, newest, sight=newest.own, bias=bias))


class CrossAttentionStep:
    """At a source, of which the cache holds keys and values since the first tokens were read."""

    def __init__(self, attention: MultiHeadAttention, *, laid_out_for: int) -> None:
        self.project = pack_layers([attention.query], laid_out_for=laid_out_for)
        self.join = pack_layers([attention.out], laid_out_for=laid_out_for)
        self.mix = Mix(attention)
        self.width = attention.shape.width

    def __call__(self, x: Tensor, newest: DecodeStep, cache: LayerCache) -> Tensor:
        assert isinstance(cache, KVCache)
        assert newest.source is not None
        q = self.project(x).view(newest.rows, -1, 1, self.width)
        k, v = cache.held()
        return self.join(self.mix(q, k, v, newest, sight=newest.source))


class Mix:
    """Values, mixed as the rule of an attention says."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        self.attention = attention
        # Torch's kernel takes what may be seen as it is written; other rules choose their own way.
        self.fused = type(attention.rule) is DotProduct

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        newest: DecodeStep,
        *,
        sight: DecodeMask,
        bias: Tensor | None = None,
    ) -> Tensor:
        """(b,h,1,d), twice (b,h,j,d) -> (b,w), or (w)"""
        if q.shape[1] != k.shape[1]:
            k, v = self.attention.for_every_head(k), self.attention.for_every_head(v)
        if self.fused and sight.says_all:
            added = sight.added
            if bias is not None:
                added = bias if added is None else added + bias
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=added)
        else:
            mask = self.attention.narrowed(sight.mask, newest.positions)
            rule = self.attention.rule
            out = attend(q, k, v, mask, rule, bias=bias, first_query=sight.place).out
        return out.reshape(-1) if newest.rows == 1 else out.reshape(newest.rows, -1)
