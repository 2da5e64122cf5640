"""Random masks of the sorts a kind declares, so that it is asked only what it says it can follow.

A drawn mask is a function of rows: the same mask over the whole batch, or over some rows of it.
Shapes: b batch, h heads, i query, j key. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

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

WHOLE_ROW = ("causal", "bidirectional", "prefix", "sliding-window", "same-block")
"Masks that say something of every pair of places."
NARROWING = ("padding", "same-document", "same-group")
"Masks that take something away from another."


@dataclass(frozen=True)
class RandomMask:
    over: Callable[[slice], Mask]
    "The mask of these rows of the batch."

    def whole(self) -> Mask:
        return self.over(slice(None))


def supports_masks(follows: SupportedMasks, *names: str) -> bool:
    return follows == "any" or set(names) <= set(follows)


def random_mask(random: Random, follows: SupportedMasks, *, batch: int, length: int) -> RandomMask:
    """One or several masks met; for kinds that follow any mask also joined and turned round."""
    masks = _Masks(random, batch=batch, length=length)
    wholes = [name for name in WHOLE_ROW if supports_masks(follows, name)]
    drawn = masks.named(random.choice(wholes)) if wholes else None
    if drawn is not None and random.random() < 0.4:
        return drawn  # the plain masks are those with paths of their own
    for name in NARROWING:
        if supports_masks(follows, name) and (drawn is None or random.random() < 0.3):
            narrower = masks.named(name)
            drawn = narrower if drawn is None else _met(drawn, narrower)
    drawn = drawn or masks.named("bidirectional")
    if follows != "any" or random.random() < 0.5:
        return drawn
    other = masks.named(random.choice(WHOLE_ROW + NARROWING))
    return random.choice((_met, _joined, _without, _some_heads))(drawn, other)


def random_named_mask(name: str, random: Random, *, batch: int, length: int) -> Mask:
    """The mask of this name, with random tables and sizes."""
    return _Masks(random, batch=batch, length=length).named(name).whole()


def random_padding(random: Random, *, batch: int, length: int, side: Side | None = None) -> Tensor:
    """(b, j), True = a token; padded on one side, the first row not at all."""
    lengths = torch.tensor([length, *(random.randint(1, length) for _ in range(batch - 1))])
    place = torch.arange(length)
    if (side or random.choice(("left", "right"))) == "left":
        place = place.flip(0)
    return place < lengths[:, None]


@dataclass(frozen=True)
class _Masks:
    """Named masks with random tables and sizes."""

    random: Random
    batch: int
    length: int

    def named(self, name: str) -> RandomMask:
        if name in ("padding", "same-document", "same-group"):
            return self._from_table(name)
        if name == "prefix":
            lengths = torch.tensor([self._upto(self.length) for _ in range(self.batch)])
            return RandomMask(lambda rows: prefix(lengths[rows]))
        mask = self._plain(name)
        return RandomMask(lambda rows: mask)

    def _plain(self, name: str) -> Mask:
        if name == "sliding-window":
            return sliding_window(1 + self._upto(4))
        if name == "same-block":
            return same_block(1 + self._upto(self.length))
        return causal() if name == "causal" else bidirectional()

    def _from_table(self, name: str) -> RandomMask:
        if name == "padding":
            valid = random_padding(self.random, batch=self.batch, length=self.length)
            return RandomMask(lambda rows: padding(valid[rows]))
        numbers = torch.tensor(
            [[self._upto(2) for _ in range(self.length)] for _ in range(self.batch)]
        )
        if name == "same-group":
            return RandomMask(lambda rows: same_group(numbers[rows]))
        # Documents stand one after the other: their numbers only grow along a row.
        documents = numbers.sort(dim=1).values
        return RandomMask(lambda rows: same_document(documents[rows]))

    def _upto(self, most: int) -> int:
        return self.random.randint(0, most)


def _met(one: RandomMask, other: RandomMask) -> RandomMask:
    return RandomMask(lambda rows: one.over(rows) & other.over(rows))


def _joined(one: RandomMask, other: RandomMask) -> RandomMask:
    return RandomMask(lambda rows: one.over(rows) | other.over(rows))


def _without(one: RandomMask, other: RandomMask) -> RandomMask:
    return RandomMask(lambda rows: one.over(rows) & ~other.over(rows))


def _some_heads(one: RandomMask, other: RandomMask) -> RandomMask:
    """Even heads follow one mask, odd heads the other."""
    even = Mask(lambda b, h, i, j: h % 2 == 0, "even-heads")
    return RandomMask(lambda rows: (even & one.over(rows)) | (~even & other.over(rows)))
