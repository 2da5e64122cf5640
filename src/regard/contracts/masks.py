"""Random masks of the types that a kind declares to support.

A random mask is a function of rows: the mask of the whole batch, or of some rows of it.
Shapes: b batch, h heads, i query, j key. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import and_, or_
from random import Random
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.attention.masks.mask import (
    Mask,
    bidirectional,
    causal,
    padding,
    prefix,
    same_block,
    same_document,
    same_group,
    sliding_window,
)

Side = Literal["left", "right"]
SupportedMasks = tuple[str, ...] | Literal["any"]

PATTERN_MASKS = ("causal", "bidirectional", "prefix", "sliding-window", "same-block")
"Masks that are a pattern over all pairs of positions."
RESTRICTING_MASKS = ("padding", "same-document", "same-group")
"Masks that restrict such a pattern."


class RandomMask(NamedTuple):
    for_rows: Callable[[slice], Mask]
    "The mask of these rows of the batch."

    def for_batch(self) -> Mask:
        return self.for_rows(slice(None))

    def combine(self, combination: Callable[[Mask, Mask], Mask], other: RandomMask) -> RandomMask:
        return RandomMask(lambda rows: combination(self.for_rows(rows), other.for_rows(rows)))


def supports_masks(supported: SupportedMasks, *names: str) -> bool:
    return supported == "any" or set(names) <= set(supported)


def random_mask(
    random: Random, supported: SupportedMasks, *, batch: int, length: int
) -> RandomMask:
    """A mask or an intersection of several; for kinds that support any mask also unions,
    differences and masks that differ between heads."""
    sampler = _MaskSampler(random, batch=batch, length=length)
    patterns = [name for name in PATTERN_MASKS if supports_masks(supported, name)]
    mask = sampler.sample(random.choice(patterns)) if patterns else None
    if mask is not None and random.random() < 0.4:
        return mask  # uncomposed masks are those with fast paths
    for name in RESTRICTING_MASKS:
        if supports_masks(supported, name) and (mask is None or random.random() < 0.3):
            restriction = sampler.sample(name)
            mask = restriction if mask is None else mask.combine(and_, restriction)
    mask = mask or sampler.sample("bidirectional")
    if supported != "any" or random.random() < 0.5:
        return mask
    other = sampler.sample(random.choice(PATTERN_MASKS + RESTRICTING_MASKS))
    return mask.combine(random.choice((and_, or_, _difference, _by_head)), other)


def random_named_mask(name: str, random: Random, *, batch: int, length: int) -> Mask:
    """The mask of this name, with random tables and sizes."""
    return _MaskSampler(random, batch=batch, length=length).sample(name).for_batch()


def random_padding(random: Random, *, batch: int, length: int, side: Side | None = None) -> Tensor:
    """(b, j), True = a token; rows are padded on one side, the first row not at all."""
    lengths = torch.tensor([length, *(random.randint(1, length) for _ in range(batch - 1))])
    positions = torch.arange(length)
    if (side or random.choice(("left", "right"))) == "left":
        positions = positions.flip(0)
    return positions < lengths[:, None]


@dataclass(frozen=True)
class _MaskSampler:
    """Masks by name, with random tables and sizes."""

    random: Random
    batch: int
    length: int

    def sample(self, name: str) -> RandomMask:
        if name == "padding":
            valid = random_padding(self.random, batch=self.batch, length=self.length)
            return RandomMask(lambda rows: padding(valid[rows]))
        if name == "prefix":
            lengths = torch.tensor([self._up_to(self.length) for _ in range(self.batch)])
            return RandomMask(lambda rows: prefix(lengths[rows]))
        if name in ("same-document", "same-group"):
            ids = torch.tensor(
                [[self._up_to(2) for _ in range(self.length)] for _ in range(self.batch)]
            )
            if name == "same-group":
                return RandomMask(lambda rows: same_group(ids[rows]))
            # Packed documents follow one another: their ids never decrease along a row.
            documents = ids.sort(dim=1).values
            return RandomMask(lambda rows: same_document(documents[rows]))
        mask = bidirectional()
        if name == "sliding-window":
            mask = sliding_window(1 + self._up_to(4))
        elif name == "same-block":
            mask = same_block(1 + self._up_to(self.length))
        elif name == "causal":
            mask = causal()
        return RandomMask(lambda rows: mask)

    def _up_to(self, maximum: int) -> int:
        return self.random.randint(0, maximum)


def _difference(a: Mask, b: Mask) -> Mask:
    return a & ~b


def _by_head(a: Mask, b: Mask) -> Mask:
    """Mask `a` in even heads, `b` in odd ones."""
    even = Mask(lambda b, h, i, j: h % 2 == 0, "even-heads")
    return (even & a) | (~even & b)
