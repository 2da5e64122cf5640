"""Planted leaks that only some lengths or some rows show."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tests.audits.planted_leaks import bidirectional, lookahead
from tests.audits.toy_models import Components, MaskContext, ToyTransformer, causal
from torch import Tensor, nn

ROW_LEAKS: dict[str, Callable[[], nn.Module]] = {}

Mask = Callable[[MaskContext], Tensor]


def plant(name: str, mask: Mask, *, max_length: int = 40) -> None:
    assert name not in ROW_LEAKS
    ROW_LEAKS[name] = lambda: ToyTransformer(Components(mask=mask, max_length=max_length))


NEXT = lookahead(1)


def at_lengths(condition: Callable[[int], bool], then: Mask = NEXT) -> Mask:
    return lambda context: then(context) if condition(context.length) else causal(context)


def last_block_open(size: int) -> Mask:
    """The last, incomplete block of the row is not masked."""

    def mask(context: MaskContext) -> Tensor:
        start = context.length // size * size
        return causal(context) | ((context.i >= start) & (context.j >= start))[None, None]

    return mask


plant("multiples of 8", at_lengths(lambda t: t % 8 == 0))
plant("multiples of 16", at_lengths(lambda t: t % 16 == 0, bidirectional))
plant("one more than a multiple of 16", at_lengths(lambda t: t % 16 == 1))
plant("one less than a multiple of 32", at_lengths(lambda t: t % 32 == 31))
plant("odd lengths", at_lengths(lambda t: t % 2 == 1))
plant("lengths that are no multiple of 4", at_lengths(lambda t: t % 4 != 0))
plant("two positions only", at_lengths(lambda t: t == 2))
plant("one short of the limit", at_lengths(lambda t: t == 39))
plant("the limit only", at_lengths(lambda t: t == 40))
plant("multiples of 64", at_lengths(lambda t: t % 64 == 0), max_length=80)
plant("from 65 on", at_lengths(lambda t: t >= 65), max_length=80)
plant("from 200 on", at_lengths(lambda t: t >= 200), max_length=300)
plant(
    "positions counted in a byte",
    lambda p: (p.j.to(torch.uint8) <= p.i.to(torch.uint8))[None, None],
    max_length=300,
)
plant(
    "multiples of 8, in training",
    lambda p: (NEXT if p.training and p.length % 8 == 0 else causal)(p),
)
plant(
    "by chance, in training",
    lambda p: (NEXT if p.training and torch.rand(()) < 0.3 else causal)(p),
)


def window_in_rows_of(condition: Callable[[int], bool]) -> Mask:
    """No position sees ahead, but how far back tells the length of the row."""

    def mask(context: MaskContext) -> Tensor:
        near = (context.i - context.j < 3)[None, None]
        return causal(context) & near if condition(context.length) else causal(context)

    return mask


plant("a window from 65 on", window_in_rows_of(lambda t: t > 64), max_length=300)
plant("a window up to 20", window_in_rows_of(lambda t: t < 21), max_length=300)
plant("a window from 21 to 60", window_in_rows_of(lambda t: 20 < t < 61), max_length=300)
plant("last incomplete block of 8", last_block_open(8))
plant("last incomplete block of 5", last_block_open(5))


def by_tokens(selects: Callable[[Tensor], Tensor]) -> Mask:
    """Positions (b,i) that see the next one."""

    def mask(context: MaskContext) -> Tensor:
        assert context.ids is not None
        ahead = (context.j == context.i + 1)[None, None]
        return causal(context) | (selects(context.ids)[:, None, :, None] & ahead)

    return mask


def equals_previous(ids: Tensor) -> Tensor:
    return torch.cat([ids[:, :1] < 0, ids[:, 1:] == ids[:, :-1]], dim=1)


def run_of_three(ids: Tensor) -> Tensor:
    same = equals_previous(ids)
    return same & torch.cat([same[:, :1], same[:, :-1]], dim=1)


def same_as_two_before(ids: Tensor) -> Tensor:
    return torch.cat([ids[:, :2] < 0, ids[:, 2:] == ids[:, :-2]], dim=1)


plant("token equal to the previous", by_tokens(equals_previous), max_length=12)
plant("third of a run", by_tokens(run_of_three), max_length=12)
plant("token of two before", by_tokens(same_as_two_before), max_length=12)
plant("after the separator", by_tokens(lambda ids: (ids == 1).cumsum(1) > 0), max_length=12)
plant("padding id attends ahead", by_tokens(lambda ids: ids == 0), max_length=12)
plant("last id of the vocabulary", by_tokens(lambda ids: ids == 18), max_length=12)
plant(
    "row of one token",
    by_tokens(lambda ids: (ids == ids[:, :1]).all(1, keepdim=True).expand_as(ids)),
    max_length=12,
)
