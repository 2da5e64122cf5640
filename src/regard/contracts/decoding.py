"""Contracts of attention kinds that decode with a KV cache.

Shapes: b batch, i query, j key. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch
from torch import Tensor

from regard.attention.masks.mask import Mask, causal, cross, padding, sliding_window
from regard.attention.mixer import Mixer
from regard.attention.token_positions import TokenPositions
from regard.contracts.attention import ATTENTION_CONTRACTS
from regard.contracts.case import AttentionCase, slice_positions
from regard.contracts.contract import NotApplicable, check_equal
from regard.contracts.masks import random_padding, supports_masks


@ATTENTION_CONTRACTS.add("cache")
def cached(case: AttentionCase) -> None:
    """Decoding in pieces with a cache equals one forward pass, also after rows are reordered."""
    if not case.traits.cacheable:
        raise NotApplicable("it declares cacheable = False")
    if not supports_masks(case.traits.masks, "causal"):
        raise NotApplicable("it does not declare the mask causal")
    b, n = case.configuration.batch, case.configuration.length
    valid = torch.ones(b, n, dtype=torch.bool)
    if supports_masks(case.traits.masks, "padding") and case.random.random() < 0.5:
        valid = random_padding(case.random, batch=b, length=n, side="left")
    window = 1 + case.random.randint(0, 5)
    is_local = case.random.random() < 0.3 and supports_masks(case.traits.masks, "sliding-window")

    def build_mask(valid: Tensor) -> Mask:
        mask = causal() & sliding_window(window) if is_local else causal()
        return mask if valid.all() else mask & padding(valid)

    mode = case.random_mode()._replace(training=False)  # decoding is inference
    mixer, x, positions = case.mixer_in(mode), case.inputs(dtype=mode.dtype), case.positions(valid)
    expected = mixer(x, mask=build_mask(valid), positions=positions).out
    rows, cache = torch.arange(b), mixer.new_cache(n)
    for piece in _random_pieces(case.random, n):
        so_far = slice(0, piece.stop)
        out = mixer(
            x[rows, piece],
            mask=build_mask(valid[rows, so_far]),
            positions=slice_positions(positions, rows, so_far),
            cache=cache,
        ).out
        what = f"outputs of positions {piece.start} to {piece.stop - 1} through the cache"
        where = f"{build_mask(valid).name}, {mode}, {case}"
        check_equal(out, expected[rows, piece], what=what, case=where, tolerance=mode.tolerance)
        if case.random.random() < 0.3:  # as in beam search
            order = torch.randint(0, b, (b,), generator=case.generator)
            cache.reorder(order)
            rows = rows[order]
    if case.traits.cross:
        _check_cross_cache(case, mixer, x, positions, tolerance=mode.tolerance)


def _check_cross_cache(
    case: AttentionCase, mixer: Mixer, x: Tensor, positions: TokenPositions, *, tolerance: float
) -> None:
    """Keys and values of the memory are projected once, then come from the cache."""
    keys = case.random.randint(1, 9)
    memory = case.inputs(length=keys, dtype=x.dtype)
    mask = cross(random_padding(case.random, batch=x.shape[0], length=keys))
    expected = mixer(x, mask=mask, positions=positions, memory=memory).out
    cache = mixer.new_cross_cache(keys)
    for piece in _random_pieces(case.random, x.shape[1]):
        so_far = slice_positions(positions, slice(None), slice(0, piece.stop))
        out = mixer(x[:, piece], mask=mask, positions=so_far, memory=memory, cache=cache).out
        what = f"outputs of positions {piece.start} to {piece.stop - 1} from a cached memory"
        check_equal(out, expected[:, piece], what=what, case=case, tolerance=tolerance)


def _random_pieces(random: Random, length: int) -> Iterator[slice]:
    """Consecutive pieces of a row, mostly of one position."""
    begin = 0
    while begin < length:
        end = min(length, begin + random.choice((1, 1, 2, 5)))
        yield slice(begin, end)
        begin = end
