"""Multi-head attention: one rule, in several heads that each see the places in their own way.

    head_h = attend(x W_q, m W_k, m W_v)_h        out = [head_1 … head_H] W_o        m = memory or x

Projections may be shared: W_q = W_k makes scores symmetric, W_q = W_k = W_v leaves one matrix;
several query heads may use one key/value head (Shazeer, 2019; Ainslie et al., 2023). A prefix, if
an adapter put one there, is more keys and values in front, which every query sees.
Shapes: b batch, h heads, i query, j key, d head width, w model width, p virtual places.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import AttentionOutput, attend
from regard.attention.cache import KVCache, LayerCache, RecurrentState
from regard.attention.function import AttentionFunction, HeadShape, RecurrentAttentionFunction
from regard.attention.kinds import ATTENTION, AttentionKind, Projections
from regard.attention.masks.mask import Mask, bidirectional
from regard.attention.mixer import Mixer
from regard.attention.positions import RelativePosition
from regard.attention.token_positions import TokenPositions
from regard.core.count import Term, linear
from regard.core.errors import UserError
from regard.core.settings import name_of
from regard.nn.linear import Linear


def build_mixer(
    kind: AttentionKind,
    shape: HeadShape,
    *,
    projections: Projections = "separate",
    key_value_heads: int = 0,
    relation: RelativePosition | None = None,
) -> Mixer:
    """The mixer of a kind; `key_value_heads` = 0 gives each head its own keys and values."""
    part = kind.build(shape)
    if isinstance(part, Mixer):
        return part
    return MultiHeadAttention(
        part,
        shape,
        projections=projections,
        key_value_heads=key_value_heads or shape.heads,
        relation=relation,
        follows=kind.traits.masks,
    )


def count_mixer(
    kind: AttentionKind,
    shape: HeadShape,
    *,
    projections: Projections = "separate",
    key_value_heads: int = 0,
    name: str = "attention",
) -> list[Term]:
    """The parameters of what `build_mixer` gives, its relation aside."""
    own, w = kind.own_parameters(shape), shape.model_width
    with torch.device("meta"):  # to know what would be built, at no cost
        if isinstance(kind.build(shape), Mixer):
            return [Term(name, name_of(kind, ATTENTION), own)]
    narrow = (key_value_heads or shape.heads) * shape.width
    letters = "w·w" if narrow == w else f"w·{narrow}"
    parts = {"query": (w, "w·w"), "key": (narrow, letters), "value": (narrow, letters)}
    if projections != "separate":
        del parts["key"]
    if projections == "shared-qkv":
        del parts["value"]
    terms = [
        linear(f"{name}, {part}", w, outputs, biases=shape.biases, letters=formula)
        for part, (outputs, formula) in {**parts, "out": (w, "w·w")}.items()
    ]
    return [*terms, Term(f"{name}, {name_of(kind, ATTENTION)}", "its own", own)] if own else terms


class MultiHeadAttention(Mixer):
    def __init__(
        self,
        rule: AttentionFunction,
        shape: HeadShape,
        *,
        projections: Projections,
        key_value_heads: int,
        relation: RelativePosition | None = None,
        follows: tuple[str, ...] | str = "any",
    ) -> None:
        super().__init__()
        width, narrow = shape.model_width, key_value_heads * shape.width
        self.shape = shape
        self.rule = rule
        self.relation = relation
        self.follows = follows
        self.query = Linear(width, width, bias=shape.biases)
        separate = projections == "separate"
        self.key = Linear(width, narrow, bias=shape.biases) if separate else None
        shared = projections == "shared-qkv"
        self.value = None if shared else Linear(width, narrow, bias=shape.biases)
        self.out = Linear(width, width, bias=shape.biases)
        self.key_value_width = narrow
        self.prefix: nn.Parameter | None
        "(2,p,k): trained keys and values of virtual places; k is the key/value width."
        self.register_parameter("prefix", None)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        positions: TokenPositions,
        memory: Tensor | None = None,
        cache: LayerCache | None = None,
        want_weights: bool = False,
    ) -> AttentionOutput:
        check_follows(mask, self.follows)
        mask = self.narrowed(mask, positions)
        q = self._heads(self.query(x))
        if memory is None:
            q = self._turned(q, positions.last(x.shape[1]))
        if isinstance(cache, RecurrentState) and isinstance(self.rule, RecurrentAttentionFunction):
            k, v = map(self.for_every_head, self._turned_keys(x, positions))
            out = self.rule.advance(q, k, v, mask=mask, state=cache)
            return self._joined(AttentionOutput(out, None, "recurrent"))
        held = cache if isinstance(cache, KVCache) else None
        if memory is None:
            k, v = self._kept(self._turned_keys(x, positions), held)
        elif held is not None and held.length:
            k, v = held.held()
        else:
            k, v = self._kept(self.keys_and_values(memory), held)
        attended = attend(
            q,
            self.for_every_head(k),
            self.for_every_head(v),
            mask,
            self.rule,
            bias=self.distance_bias(x.shape[1], positions) if memory is None else None,
            # One's own places are the last of the keys, behind a prefix and what is cached.
            first_query=k.shape[2] - x.shape[1] if memory is None else 0,
            dropout=self.shape.dropout if self.training else 0.0,
            want_weights=want_weights,
        )
        return self._joined(attended)

    def new_cache(self, capacity: int) -> LayerCache:
        if isinstance(self.rule, RecurrentAttentionFunction):
            return RecurrentState()
        return KVCache(capacity + self._prefix_places)

    def new_source_cache(self, capacity: int) -> LayerCache:
        return KVCache(capacity + self._prefix_places)

    def keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """(b,j,w) -> two of (b,h,j,d), one for each key/value head; not turned."""
        keys = (self.key or self.query)(source)
        values = keys if self.value is None else self.value(source)
        return self._heads(keys), self._heads(values)

    def _turned_keys(self, x: Tensor, positions: TokenPositions) -> tuple[Tensor, Tensor]:
        k, v = self.keys_and_values(x)
        return self._turned(k, positions.last(x.shape[1])), v

    def _kept(self, new: tuple[Tensor, Tensor], cache: KVCache | None) -> tuple[Tensor, Tensor]:
        """New keys and values behind all before them: the prefix, which goes into a cache once,
        and what the cache holds."""
        k, v = new
        if self.prefix is not None and (cache is None or not cache.length):
            front = (self._heads(part[None]).expand(len(k), -1, -1, -1) for part in self.prefix)
            k, v = (torch.cat(both, dim=2) for both in zip(front, (k, v), strict=True))
        return (k, v) if cache is None else cache.extend(k, v)

    @property
    def _prefix_places(self) -> int:
        return 0 if self.prefix is None else self.prefix.shape[1]

    def narrowed(self, mask: Mask, positions: TokenPositions) -> Mask:
        """The mask that the rule really follows; what it forbids of its own, it forbids between
        tokens: virtual places are seen from everywhere."""
        if positions.tokens is None:
            return self.rule.narrow(mask, positions)
        return mask & self.rule.narrow(bidirectional(), positions.tokens).behind(positions.virtual)

    def _turned(self, x: Tensor, positions: Tensor) -> Tensor:
        return x if self.relation is None else self.relation.rotate(x, positions)

    def distance_bias(self, queries: int, positions: TokenPositions) -> Tensor | None:
        if self.relation is None:
            return None
        # A prefix stands nowhere: no distance to it, and no bias.
        prefixed = self._prefix_places
        bias = self.relation.bias(positions.last(queries), positions.ids[:, prefixed:])
        return F.pad(bias, (prefixed, 0)) if prefixed and bias is not None else bias

    def for_every_head(self, x: Tensor) -> Tensor:
        share = self.shape.heads // x.shape[1]
        return x if share == 1 else x.repeat_interleave(share, dim=1)

    def _joined(self, attended: AttentionOutput) -> AttentionOutput:
        """(b,h,i,d) -> (b,i,w)"""
        return attended._replace(out=self.out(attended.out.transpose(1, 2).flatten(2)))

    def _heads(self, x: Tensor) -> Tensor:
        """(b,i,h·d) -> (b,h,i,d)"""
        return x.view(*x.shape[:2], -1, self.shape.width).transpose(1, 2)


def check_follows(mask: Mask, follows: tuple[str, ...] | str) -> None:
    """Refuse a mask that a kind has not declared: it would be dropped in silence."""
    if follows == "any" or mask.parts <= set(follows):
        return
    raise UserError(
        f"this attention cannot follow the mask {mask.name}: it declares {', '.join(follows)}",
        topic="attention",
        hint="Choose another attention kind, such as dot, which follows any mask.",
    )
