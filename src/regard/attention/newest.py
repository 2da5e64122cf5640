"""The newest place of each row, read alone: what decoding does for every token that it writes.

It is the pass of `MultiHeadAttention` over one place with a cache, which is its oracle, without
what that pass does anew in each layer: queries, keys and values are one product, and what may be
seen is written out once a step, for all layers. Shapes: b rows, h heads, j key, d head width, w
model width. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from regard.attention.attend import attend
from regard.attention.cache import KeyValueCache, LayerCache
from regard.attention.mask import Grid, Mask
from regard.attention.mixer import Mixer
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.places import Places
from regard.attention.products import product_of
from regard.attention.rule import Asked, RecurrentRule


@dataclass(frozen=True)
class Sight:
    """What one place of each row may see: the same in every layer."""

    mask: Mask
    written: Mask
    "The same, written out for this place alone unless it sees everything."
    grid: Grid
    place: int

    @classmethod
    def of(cls, mask: Mask, x: Tensor, *, heads: int, keys: int, place: int) -> Sight:
        """From `place`, where x (b,w) stands, over so many keys."""
        grid = Grid.over(
            queries=1, keys=keys, batch=len(x), heads=heads, first_query=place, device=x.device
        )
        return cls(mask, _written(mask, grid), grid, place)


@dataclass(frozen=True)
class Newest:
    """Where the newest place of each row stands, and what it sees."""

    places: Places
    own: Sight
    source: Sight | None = None


Look = Callable[[Tensor, Newest, LayerCache], Tensor]
"(b,w) -> (b,w): one place of each row, having looked; a cache of its own past takes it in"


def ready_to_look(mixer: Mixer, *, inputs_first: bool) -> Look:
    """A mixer for one place of each row at a time; `inputs_first`: see `product_of`."""
    if isinstance(mixer, MultiHeadAttention) and not isinstance(mixer.rule, RecurrentRule):
        return OwnLook(mixer, inputs_first=inputs_first)

    def look(x: Tensor, newest: Newest, cache: LayerCache) -> Tensor:
        attended = mixer(x[:, None], mask=newest.own.mask, places=newest.places, cache=cache)
        out: Tensor = attended.out
        return out[:, 0]

    return look


class OwnLook:
    """At one's own past, which the cache holds."""

    def __init__(self, attention: MultiHeadAttention, *, inputs_first: bool) -> None:
        layers = [attention.query, attention.key, attention.value]
        there = [layer for layer in layers if layer is not None]
        self.attention = attention
        self.project = product_of(there, inputs_first=inputs_first)
        self.join = product_of([attention.out], inputs_first=inputs_first)
        width = attention.shape.width
        self.heads = [layer.out_features // width for layer in there]

    def __call__(self, x: Tensor, newest: Newest, cache: LayerCache) -> Tensor:
        assert isinstance(cache, KeyValueCache)
        attention, places, sight = self.attention, newest.places, newest.own
        made = self.project(x).view(len(x), -1, 1, attention.shape.width)
        # Where matrices are shared, the first part or the last one is there twice.
        parts = made.split(self.heads, dim=1) if len(self.heads) > 1 else (made,)
        q, k, v = parts[0], parts[-2 if len(parts) == 3 else 0], parts[-1]
        if attention.relation is not None:
            positions = places.last(1)
            q, k = (attention.relation.rotate(each, positions) for each in (q, k))
        k, v = cache.extend(k, v)
        mixed = _mixed(attention, q, k, v, sight=sight, places=places)
        return self.join(mixed)


class SourceLook:
    """At a source, of which the cache holds keys and values since the first tokens were read."""

    def __init__(self, attention: MultiHeadAttention, *, inputs_first: bool) -> None:
        self.attention = attention
        self.project = product_of([attention.query], inputs_first=inputs_first)
        self.join = product_of([attention.out], inputs_first=inputs_first)

    def __call__(self, x: Tensor, newest: Newest, cache: LayerCache) -> Tensor:
        assert isinstance(cache, KeyValueCache)
        assert newest.source is not None
        q = self.project(x).view(len(x), -1, 1, self.attention.shape.width)
        return self.join(_mixed(self.attention, q, *cache.held(), sight=newest.source))


def _mixed(
    attention: MultiHeadAttention,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    sight: Sight,
    places: Places | None = None,
) -> Tensor:
    """(b,h,1,d), twice (b,h,j,d) -> (b,w); `places` where the keys are of one's own row."""
    k, v = attention.for_every_head(k), attention.for_every_head(v)
    bias = None if places is None else attention.distance_bias(1, places)
    mask = sight.written if places is None else attention.narrowed(sight.written, places)
    if mask is sight.written:
        fast = attention.rule.fast(Asked(q, k, v, mask, sight.grid, bias, 0.0))
        if fast is not None:
            return fast.out.reshape(len(q), -1)
    mask = sight.mask if places is None else attention.narrowed(sight.mask, places)
    attended = attend(q, k, v, mask, attention.rule, bias=bias, first_query=sight.place)
    return attended.out.reshape(len(q), -1)


def _written(mask: Mask, grid: Grid) -> Mask:
    known = mask.known
    if mask.is_everything or (mask.is_causal and grid.last_alone):
        return mask
    if known.valid is not None and (known.pattern == "everything" or grid.last_alone):
        # With either pattern the last place sees every key that may be seen at all.
        table = known.valid[:, None, None]
    else:
        table = mask.on(grid)
    return replace(mask, allowed=lambda b, h, i, j: table, sizes=())
