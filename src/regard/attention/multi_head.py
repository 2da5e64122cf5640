"""Multi-head attention: one rule, in several heads that each see the places in their own way.

    head_h = attend(x W_q, m W_k, m W_v)_h        out = [head_1 … head_H] W_o        m = memory or x

Projections may be shared: W_q = W_k makes scores symmetric, W_q = W_k = W_v leaves one matrix;
several query heads may use one key/value head (Shazeer, 2019; Ainslie et al., 2023).
Shapes: b batch, h heads, i query, j key, d head width, w model width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.cache import KeyValueCache, LayerCache, StateCache
from regard.attention.kinds import ATTENTION, AttentionKind, Projections
from regard.attention.mask import Mask
from regard.attention.mixer import Mixer
from regard.attention.places import Places
from regard.attention.positions import Relation
from regard.attention.rule import HeadShape, RecurrentRule, Rule
from regard.count import Term, linear
from regard.errors import UserError
from regard.settings import name_of


def build_mixer(
    kind: AttentionKind,
    shape: HeadShape,
    *,
    projections: Projections = "separate",
    key_value_heads: int = 0,
    relation: Relation | None = None,
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
        rule: Rule,
        shape: HeadShape,
        *,
        projections: Projections,
        key_value_heads: int,
        relation: Relation | None = None,
        follows: tuple[str, ...] | str = "any",
    ) -> None:
        super().__init__()
        width, narrow = shape.model_width, key_value_heads * shape.width
        self.shape = shape
        self.rule = rule
        self.relation = relation
        self.follows = follows
        self.query = nn.Linear(width, width, bias=shape.biases)
        separate = projections == "separate"
        self.key = nn.Linear(width, narrow, bias=shape.biases) if separate else None
        shared = projections == "shared-qkv"
        self.value = None if shared else nn.Linear(width, narrow, bias=shape.biases)
        self.out = nn.Linear(width, width, bias=shape.biases)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        places: Places,
        memory: Tensor | None = None,
        cache: LayerCache | None = None,
        want_weights: bool = False,
    ) -> Attended:
        check_follows(mask, self.follows)
        mask = self.rule.narrow(mask, places)
        q = self._heads(self.query(x))
        if memory is None:
            q = self._turned(q, places.last(x.shape[1]))
        if isinstance(cache, StateCache) and isinstance(self.rule, RecurrentRule):
            k, v = map(self._for_every_head, self._keys_and_values(x, places))
            out = self.rule.advance(q, k, v, mask=mask, state=cache)
            return self._joined(Attended(out, None, "recurrent"))
        first_query = 0
        if isinstance(cache, KeyValueCache) and memory is not None:
            if not cache.length:
                cache.extend(*self._keys_and_values(memory, None))
            k, v = cache.held()
        elif isinstance(cache, KeyValueCache):
            first_query = cache.length
            k, v = cache.extend(*self._keys_and_values(x, places))
        else:
            k, v = (
                self._keys_and_values(x, places)
                if memory is None
                else self._keys_and_values(memory, None)
            )
        attended = attend(
            q,
            self._for_every_head(k),
            self._for_every_head(v),
            mask,
            self.rule,
            bias=self._bias(x.shape[1], places) if memory is None else None,
            first_query=first_query,
            dropout=self.shape.dropout if self.training else 0.0,
            want_weights=want_weights,
        )
        return self._joined(attended)

    def new_cache(self, capacity: int) -> LayerCache:
        return StateCache() if isinstance(self.rule, RecurrentRule) else KeyValueCache(capacity)

    def _keys_and_values(self, source: Tensor, places: Places | None) -> tuple[Tensor, Tensor]:
        """(b,j,w) -> two of (b,h,j,d), one for each key/value head; turned where they stand."""
        keys = (self.key or self.query)(source)
        values = keys if self.value is None else self.value(source)
        k, v = self._heads(keys), self._heads(values)
        return (k if places is None else self._turned(k, places.last(source.shape[1]))), v

    def _turned(self, x: Tensor, positions: Tensor) -> Tensor:
        return x if self.relation is None else self.relation.rotate(x, positions)

    def _bias(self, queries: int, places: Places) -> Tensor | None:
        if self.relation is None:
            return None
        return self.relation.bias(places.last(queries), places.positions)

    def _for_every_head(self, x: Tensor) -> Tensor:
        share = self.shape.heads // x.shape[1]
        return x if share == 1 else x.repeat_interleave(share, dim=1)

    def _joined(self, attended: Attended) -> Attended:
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
        mend="Choose another attention kind, such as dot, which follows any mask.",
    )
