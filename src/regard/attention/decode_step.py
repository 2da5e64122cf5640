"""One decode step of attention: one new position per row, over the KV cache.

It computes what `MultiHeadAttention` computes for one position with a cache, which is its oracle,
with less work per layer: queries, keys and values are one packed linear layer, and the mask is
materialised once per step for all layers. Shapes: b rows, h heads, g key/value heads, j key, d head
width, w model width. Masks: True = may attend.
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
from regard.core.process.host import is_readable
from regard.nn.packed_linear import pack_layers


@dataclass(frozen=True)
class DecodeMask:
    """The mask of one query position per row, the same in every layer."""

    build_mask: Callable[[], Mask]
    "Builds the mask itself, which few kinds of attention need."
    position: int
    "Index of the query among the keys."
    bias: Tensor | None
    "(b or 1,1,1,j): 0 where it may attend, −∞ elsewhere; None where it may attend everywhere."
    bias_is_exact: bool = True
    "Whether `bias` is the whole mask: no fully masked row, no per-head mask."

    @classmethod
    def from_mask(cls, mask: Mask, *, position: int, keys: int, dtype: torch.dtype) -> DecodeMask:
        """The row of `mask` for the query at `position`, over `keys` keys."""
        structure, is_last = mask.structure, position + 1 == keys
        if not (structure.pattern == "everything" or (structure.pattern == "causal" and is_last)):
            return cls(lambda: mask, position, None, bias_is_exact=False)
        # With either pattern the last query may attend to every valid key.
        return cls.from_valid(structure.valid, lambda: mask, position=position, dtype=dtype)

    @classmethod
    def from_valid(
        cls, valid: Tensor | None, mask: Callable[[], Mask], *, position: int, dtype: torch.dtype
    ) -> DecodeMask:
        """For a query that may attend to every valid key, (b,j); None: all keys are valid."""
        if valid is None:
            return cls(mask, position, None)
        bias = torch.where(valid, 0.0, -torch.inf).to(dtype)[:, None, None]
        # In self-attention the query is the last key; in cross-attention a memory may be all
        # padding.
        has_key = valid.select(1, -1) if position + 1 == valid.shape[1] else valid.any(dim=1)
        # Where it cannot be read, empty rows are taken care of as in any other attention.
        is_exact = is_readable(has_key) and bool(has_key.all())
        return cls(mask, position, bias, bias_is_exact=is_exact)


@dataclass
class DecodeStep:
    """The new position of each row: its position id and what it may attend to."""

    rows: int
    position_ids: Tensor
    "(b or 1,1)"
    self_mask: DecodeMask
    cross_mask: DecodeMask | None
    build_positions: Callable[[], TokenPositions]

    @cached_property
    def positions(self) -> TokenPositions:
        """Of the whole rows, cached positions included; few kinds of attention need them."""
        return self.build_positions()


AttentionStep = Callable[[Tensor, DecodeStep, LayerCache], Tensor]
"""Attention from the new position of each row; self-attention appends it to the cache.
(b,w) -> (b,w), and for a single row (w) -> (w), as in a `PackedLayer`."""


def build_attention_step(mixer: Mixer, *, packed_for: int) -> AttentionStep:
    """The self-attention step of a mixer; for `packed_for` see `pack_layers`."""
    if isinstance(mixer, MultiHeadAttention) and not isinstance(
        mixer.function, RecurrentAttentionFunction
    ):
        return SelfAttentionStep(mixer, packed_for=packed_for)

    def mixer_step(x: Tensor, step: DecodeStep, cache: LayerCache) -> Tensor:
        row = x.view(step.rows, 1, -1)
        attended = mixer(
            row, mask=step.self_mask.build_mask(), positions=step.positions, cache=cache
        )
        out: Tensor = attended.out
        return out.view(x.shape)

    return mixer_step


class _AttentionStep:
    """What self- and cross-attention share: the attention function, for one query per row."""

    def __init__(self, attention: MultiHeadAttention, *, packed_for: int) -> None:
        self.attention = attention
        self.out_proj = pack_layers([attention.out], packed_for=packed_for)
        self.head_width = attention.shape.width
        # Subclasses may restrict the mask or have another fast path.
        self.is_dot_product = type(attention.function) is DotProduct

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        step: DecodeStep,
        *,
        mask: DecodeMask,
        bias: Tensor | None = None,
    ) -> Tensor:
        """(b,h,1,d), twice (b,g,j,d) -> (b,w), or (w) for a single row"""
        attention = self.attention
        if q.shape[1] != k.shape[1]:
            k, v = attention.repeat_kv(k), attention.repeat_kv(v)
        if self.is_dot_product and mask.bias_is_exact:
            if bias is not None and mask.bias is not None:
                bias = mask.bias + bias
            added = mask.bias if bias is None else bias
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=added)
        else:
            restricted = attention.restrict_mask(mask.build_mask(), step.positions)
            function = attention.function
            out = attend(q, k, v, restricted, function, bias=bias, first_query=mask.position).out
        return self.out_proj(out.reshape(-1) if step.rows == 1 else out.reshape(step.rows, -1))


class SelfAttentionStep(_AttentionStep):
    """Self-attention over the KV cache."""

    def __init__(self, attention: MultiHeadAttention, *, packed_for: int) -> None:
        super().__init__(attention, packed_for=packed_for)
        projections = [attention.query, attention.key, attention.value]
        layers = [layer for layer in projections if layer is not None]
        self.qkv_proj = pack_layers(layers, packed_for=packed_for)
        self.heads = [layer.out_features // self.head_width for layer in layers]
        self.may_fuse = (
            attention.relative_position is None and len(layers) == 3 and self.is_dot_product
        )

    def __call__(self, x: Tensor, step: DecodeStep, cache: LayerCache) -> Tensor:
        assert isinstance(cache, KVCache)
        qkv = self.qkv_proj(x).view(step.rows, -1, 1, self.head_width)
        if self.may_fuse and step.self_mask.bias_is_exact and cache.supports_fused_step(qkv):
            out = cache.fused_step(qkv, bias=step.self_mask.bias)
            return self.out_proj(out.view(-1) if step.rows == 1 else out)
        # With shared projections one tensor serves as two or three of q, k and v.
        projected = torch.split_with_sizes(qkv, self.heads, dim=1)
        q, k, v = projected[0], projected[1 if len(projected) == 3 else 0], projected[-1]
        bias, relative_position = None, self.attention.relative_position
        if relative_position is not None:
            q = relative_position.rotate(q, step.position_ids)
            k = relative_position.rotate(k, step.position_ids)
            bias = self.attention.position_bias(1, step.positions)
        k, v = cache.extend(k, v)
        return self.attend(q, k, v, step, mask=step.self_mask, bias=bias)


class CrossAttentionStep(_AttentionStep):
    """Cross-attention to a memory whose keys and values the KV cache holds since the prefill."""

    def __init__(self, attention: MultiHeadAttention, *, packed_for: int) -> None:
        super().__init__(attention, packed_for=packed_for)
        self.q_proj = pack_layers([attention.query], packed_for=packed_for)

    def __call__(self, x: Tensor, step: DecodeStep, cache: LayerCache) -> Tensor:
        assert isinstance(cache, KVCache)
        assert step.cross_mask is not None
        q = self.q_proj(x).view(step.rows, -1, 1, self.head_width)
        return self.attend(q, *cache.contents(), step, mask=step.cross_mask)
