"""Multi-head attention: one attention function in several heads, each with its own projections.

    head_h = attend(x W_q, m W_k, m W_v)_h        out = [head_1 … head_H] W_o        m = memory or x

Self-attention without `memory`, cross-attention with it. Projections may be shared: W_q = W_k makes
scores symmetric, W_q = W_k = W_v leaves one matrix. In multi-query and grouped-query attention
several query heads share a key/value head (Shazeer, 2019; Ainslie et al., 2023). A prefix, where an
adapter added one, is p more keys and values in front, which every query may attend to.
Shapes: b batch, h heads, i query, j key, d head width, w model width, p virtual tokens. Masks:
True = may attend.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.cache import KVCache, LayerCache, RecurrentState
from regard.attention.function import (
    AttentionFunction,
    AttentionOutput,
    HeadShape,
    RecurrentAttentionFunction,
)
from regard.attention.kinds import ATTENTION, AttentionKind, Projections
from regard.attention.masks.mask import Mask, bidirectional
from regard.attention.mixer import Mixer
from regard.attention.positions import RelativePosition
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError
from regard.core.ledger import ParameterCount, linear_parameters
from regard.core.process.host import is_readable
from regard.core.settings import catalog_name
from regard.nn.linear import Linear


def build_mixer(
    kind: AttentionKind,
    shape: HeadShape,
    *,
    projections: Projections = "separate",
    key_value_heads: int = 0,
    relative_position: RelativePosition | None = None,
) -> Mixer:
    """The mixer of a kind; with `key_value_heads` = 0 each query head has its own keys and
    values."""
    built = kind.build(shape)
    if isinstance(built, Mixer):
        return built
    return MultiHeadAttention(
        built,
        shape,
        projections=projections,
        key_value_heads=key_value_heads or shape.heads,
        relative_position=relative_position,
        supported_masks=kind.traits.masks,
    )


def count_mixer(
    kind: AttentionKind,
    shape: HeadShape,
    *,
    projections: Projections = "separate",
    key_value_heads: int = 0,
    name: str = "attention",
) -> list[ParameterCount]:
    """The parameters of the mixer that `build_mixer` builds, except its relative position's."""
    own, w = kind.own_parameters(shape), shape.model_width
    with torch.device("meta"):  # builds without allocating
        if isinstance(kind.build(shape), Mixer):
            return [ParameterCount(name, catalog_name(kind, ATTENTION), own)]
    kv_width = (key_value_heads or shape.heads) * shape.width
    kv_formula = "w·w" if kv_width == w else f"w·{kv_width}"
    layers = {"query": (w, "w·w"), "key": (kv_width, kv_formula), "value": (kv_width, kv_formula)}
    if projections != "separate":
        del layers["key"]
    if projections == "shared-qkv":
        del layers["value"]
    terms = [
        linear_parameters(f"{name}, {layer}", w, outputs, biases=shape.biases, letters=formula)
        for layer, (outputs, formula) in {**layers, "out": (w, "w·w")}.items()
    ]
    if own:
        kind_name = catalog_name(kind, ATTENTION)
        terms.append(ParameterCount(f"{name}, {kind_name}", "its own", own))
    return terms


class MultiHeadAttention(Mixer):
    def __init__(
        self,
        function: AttentionFunction,
        shape: HeadShape,
        *,
        projections: Projections,
        key_value_heads: int,
        relative_position: RelativePosition | None = None,
        supported_masks: tuple[str, ...] | str = "any",
    ) -> None:
        super().__init__()
        width, kv_width = shape.model_width, key_value_heads * shape.width
        self.shape = shape
        self.function = function
        self.relative_position = relative_position
        self.supported_masks = supported_masks
        self.query = Linear(width, width, bias=shape.biases)
        separate = projections == "separate"
        self.key = Linear(width, kv_width, bias=shape.biases) if separate else None
        shared = projections == "shared-qkv"
        self.value = None if shared else Linear(width, kv_width, bias=shape.biases)
        self.out = Linear(width, width, bias=shape.biases)
        self.key_value_width = kv_width
        self.prefix: nn.Parameter | None
        "(2,p,k): trained keys and values of virtual tokens; k is the key/value width."
        self.register_parameter("prefix", None)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        positions: TokenPositions,
        memory: Tensor | None = None,
        cache: LayerCache | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        check_mask_supported(mask, self.supported_masks)
        mask = self.restrict_mask(mask, positions)
        q = self.shape.split_heads(self.query(x))
        kv_cache = cache if isinstance(cache, KVCache) else None
        if memory is not None and kv_cache is not None and kv_cache.length:
            k, v = kv_cache.contents()
        else:
            k, v = self.project_keys_values(x if memory is None else memory)
            if memory is None and self.relative_position is not None:
                ids = positions.last(x.shape[1])
                q, k = (self.relative_position.rotate(heads, ids) for heads in (q, k))
            if isinstance(cache, RecurrentState):
                assert isinstance(self.function, RecurrentAttentionFunction)
                k, v = self.repeat_kv(k), self.repeat_kv(v)
                out = self.function.advance(q, k, v, mask=mask, state=cache)
                return self._project_out(AttentionOutput(out, None, "recurrent"))
            k, v = self._with_past(k, v, kv_cache)
        attended = attend(
            q,
            self.repeat_kv(k),
            self.repeat_kv(v),
            mask,
            self.function,
            bias=self.position_bias(x.shape[1], positions) if memory is None else None,
            # In self-attention the queries are the last keys, after the prefix and cached keys.
            first_query=k.shape[2] - x.shape[1] if memory is None else 0,
            dropout=self.shape.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        return self._project_out(attended)

    def new_cache(self, capacity: int) -> LayerCache:
        if isinstance(self.function, RecurrentAttentionFunction):
            return RecurrentState()
        return KVCache(capacity + self._prefix_length)

    def new_cross_cache(self, capacity: int) -> LayerCache:
        return KVCache(capacity + self._prefix_length)

    def project_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(b,j,w) -> keys and values (b,g,j,d) of the g key/value heads, not rotated."""
        keys = (self.key or self.query)(x)
        values = keys if self.value is None else self.value(x)
        return self.shape.split_heads(keys), self.shape.split_heads(values)

    def _with_past(self, k: Tensor, v: Tensor, cache: KVCache | None) -> tuple[Tensor, Tensor]:
        """New keys and values after the prefix, which enters a cache once, and the cached ones."""
        if self.prefix is not None and (cache is None or not cache.length):
            prefix = (
                # Under autocast keys have another dtype than parameters.
                self.shape.split_heads(x[None].to(k.dtype)).expand(len(k), -1, -1, -1)
                for x in self.prefix
            )
            k, v = (torch.cat(pair, dim=2) for pair in zip(prefix, (k, v), strict=True))
        return (k, v) if cache is None else cache.extend(k, v)

    @property
    def _prefix_length(self) -> int:
        return 0 if self.prefix is None else self.prefix.shape[1]

    def restrict_mask(self, mask: Mask, positions: TokenPositions) -> Mask:
        """The mask as restricted by the attention function. The restriction holds between tokens:
        every query may attend to virtual tokens."""
        if positions.tokens is None:
            return self.function.restrict_mask(mask, positions)
        restriction = self.function.restrict_mask(bidirectional(), positions.tokens)
        return mask & restriction.with_virtual_tokens(positions.virtual_tokens)

    def position_bias(self, queries: int, positions: TokenPositions) -> Tensor | None:
        """(b or 1,h,i,j) of the relative position, for the last `queries` positions."""
        if self.relative_position is None:
            return None
        # A prefix has no position: no distance to it, and no bias.
        prefix = self._prefix_length
        query_ids, key_ids = positions.last(queries), positions.ids[:, prefix:]
        longest = self.relative_position.max_length
        # On the CPU `bias` reads the positions itself; elsewhere the host knows that they fit.
        if longest is not None and not (is_readable(key_ids) or positions.fits(longest)):
            self.relative_position.check_length(query_ids, key_ids)
        bias = self.relative_position.bias(query_ids, key_ids)
        return F.pad(bias, (prefix, 0)) if prefix and bias is not None else bias

    def repeat_kv(self, x: Tensor) -> Tensor:
        """(b,g,j,d) -> (b,h,j,d): each key/value head for all query heads of its group."""
        group = self.shape.heads // x.shape[1]
        return x if group == 1 else x.repeat_interleave(group, dim=1)

    def _project_out(self, attended: AttentionOutput) -> AttentionOutput:
        """(b,h,i,d) -> (b,i,w)"""
        return attended._replace(out=self.out(attended.out.transpose(1, 2).flatten(2)))


def check_mask_supported(mask: Mask, supported: tuple[str, ...] | str) -> None:
    """Refuse a mask that the kind does not declare: it would be ignored silently."""
    if supported == "any" or mask.components <= set(supported):
        return
    raise UserError(
        f"this attention does not support the mask {mask.name}: it declares {', '.join(supported)}",
        topic="attention",
        hint="Choose another attention kind, such as dot, which supports any mask.",
    )
