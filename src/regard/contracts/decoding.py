"""What a kind of attention owes when a row is read piece by piece, as decoding does.

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
    """Read piece by piece through its cache, a row gives what one pass gives, also reordered."""
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

    def mask_of(valid: Tensor) -> Mask:
        mask = causal() & sliding_window(window) if is_local else causal()
        return mask if valid.all() else mask & padding(valid)

    mode = case.mode()._replace(training=False)  # nobody decodes while training
    mixer, x, positions = case.mixer_in(mode), case.vectors(dtype=mode.dtype), case.positions(valid)
    expected = mixer(x, mask=mask_of(valid), positions=positions).out
    rows, cache = torch.arange(b), mixer.new_cache(n)
    for piece in _pieces(case.random, n):
        seen = slice(0, piece.stop)
        out = mixer(
            x[rows, piece],
            mask=mask_of(valid[rows, seen]),
            positions=slice_positions(positions, rows, seen),
            cache=cache,
        ).out
        what = f"outputs of places {piece.start} to {piece.stop - 1} through the cache"
        where = f"{mask_of(valid).name}, {mode}, {case}"
        check_equal(out, expected[rows, piece], what=what, case=where, tolerance=mode.tolerance)
        if case.random.random() < 0.3:  # a beam that ends is replaced by a copy of another
            order = torch.randint(0, b, (b,), generator=case.generator)
            cache.reorder(order)
            rows = rows[order]
    if case.traits.cross:
        _check_source_cache(case, mixer, x, positions, tolerance=mode.tolerance)


def _check_source_cache(
    case: AttentionCase, mixer: Mixer, x: Tensor, positions: TokenPositions, *, tolerance: float
) -> None:
    """A source is read once: later pieces find it in the cache."""
    keys = case.random.randint(1, 9)
    memory = case.vectors(length=keys, dtype=x.dtype)
    mask = cross(random_padding(case.random, batch=x.shape[0], length=keys))
    expected = mixer(x, mask=mask, positions=positions, memory=memory).out
    cache = mixer.new_cross_cache(keys)
    for piece in _pieces(case.random, x.shape[1]):
        seen = slice_positions(positions, slice(None), slice(0, piece.stop))
        out = mixer(x[:, piece], mask=mask, positions=seen, memory=memory, cache=cache).out
        what = f"outputs of places {piece.start} to {piece.stop - 1} from a cached source"
        check_equal(out, expected[:, piece], what=what, case=case, tolerance=tolerance)


def _pieces(random: Random, length: int) -> Iterator[slice]:
    """A row in pieces, mostly of one place."""
    begin = 0
    while begin < length:
        end = min(length, begin + random.choice((1, 1, 2, 5)))
        yield slice(begin, end)
        begin = end
