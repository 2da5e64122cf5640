"""Masks with virtual tokens: unchanged between tokens, and every token attends to the prefix."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.masks import mask as masks
from regard.attention.masks.mask import Mask
from regard.attention.token_positions import TokenPositions

ROWS, TOKENS = 2, 6


@st.composite
def some_mask(draw) -> Mask:
    flags = st.lists(st.booleans(), min_size=TOKENS, max_size=TOKENS)
    numbers = st.lists(st.integers(0, 2), min_size=TOKENS, max_size=TOKENS)

    def table(values):
        return torch.tensor([draw(values) for _ in range(ROWS)])

    one = st.sampled_from(
        [
            lambda: masks.causal(),
            lambda: masks.bidirectional(),
            lambda: masks.padding(table(flags)),
            lambda: masks.same_document(table(numbers)),
            lambda: masks.same_group(table(numbers)),
            lambda: masks.sliding_window(draw(st.integers(1, TOKENS + 1))),
            lambda: masks.same_block(draw(st.integers(1, TOKENS))),
            lambda: masks.prefix(torch.tensor([2, 4])),
        ]
    )
    mask = draw(one)()
    for _ in range(draw(st.integers(0, 2))):
        other = draw(one)()
        mask = mask & other if draw(st.booleans()) else mask | other
    return mask


def dense(mask: Mask, length: int) -> torch.Tensor:
    return mask.dense(length, length, batch=ROWS).expand(ROWS, 1, length, length)[:, 0]


@settings(max_examples=200, deadline=None)
@given(some_mask(), st.integers(0, 4))
def test_masks_between_tokens_stay_and_virtual_tokens_are_visible(mask, virtual):
    behind = mask.with_virtual_tokens(virtual)
    whole = dense(behind, virtual + TOKENS)
    behind.check_fits(rows=ROWS, keys=virtual + TOKENS, positions=virtual + TOKENS)
    assert torch.equal(whole[:, virtual:, virtual:], dense(mask, TOKENS))
    assert bool(whole[:, virtual:, :virtual].all())
    assert behind.components == mask.components


@settings(max_examples=200, deadline=None)
@given(some_mask(), st.integers(1, 4))
def test_mask_structure_stays_true(mask, virtual):
    behind = mask.with_virtual_tokens(virtual)
    whole, structure = dense(behind, virtual + TOKENS), behind.structure
    i, j = torch.arange(virtual + TOKENS)[:, None], torch.arange(virtual + TOKENS)
    if structure.pattern is not None:
        exact = j <= i if structure.pattern == "causal" else torch.ones_like(j <= i)
        expected = exact if structure.valid is None else exact & structure.valid[:, None]
        assert torch.equal(whole, expected.expand_as(whole))
    if structure.band.right is not None:
        assert not bool((whole & (j - i > structure.band.right)).any())
    if structure.band.left is not None:
        assert not bool((whole & (i - j > structure.band.left)).any())
    if mask.structure.band.right == 0:
        assert not bool((whole & (j > i)).any()), "virtual tokens leak no future"
    if mask.structure.pattern is None:
        assert not bool(whole[:, :virtual, virtual:].any()), "virtual tokens attend to no token"


def test_positions_count_after_virtual_tokens_or_without_them():
    tokens = TokenPositions.of_padded(torch.tensor([[False, True, True], [True, True, True]]))
    behind = tokens.with_virtual_tokens(2, first=2)
    assert behind.ids.tolist() == [[0, 1, 2, 2, 3], [0, 1, 2, 3, 4]]
    assert behind.tokens is tokens
    assert behind.virtual_tokens == 2
    masked = tokens.with_virtual_tokens(2, first=0)
    assert masked.ids.tolist() == [[0, 0, 0, 0, 1], [0, 0, 0, 1, 2]]
    assert TokenPositions.of_row(3).with_virtual_tokens(2, first=2).in_order
    assert not TokenPositions.of_row(3).with_virtual_tokens(2, first=0).in_order
    assert tokens.with_virtual_tokens(0, first=0) is tokens
