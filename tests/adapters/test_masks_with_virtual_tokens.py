"""Masks with virtual tokens: unchanged between tokens, and every token attends to the prefix."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.masks import mask as masks
from regard.attention.masks.mask import Mask
from regard.attention.token_positions import TokenPositions

ROWS, TOKENS = 2, 6


@st.composite
def random_masks(draw) -> Mask:
    flags = st.lists(st.booleans(), min_size=TOKENS, max_size=TOKENS)
    ids = st.lists(st.integers(0, 2), min_size=TOKENS, max_size=TOKENS)

    def table(values):
        return torch.tensor([draw(values) for _ in range(ROWS)])

    builders = st.sampled_from(
        [
            lambda: masks.causal(),
            lambda: masks.bidirectional(),
            lambda: masks.padding(table(flags)),
            lambda: masks.same_document(table(ids)),
            lambda: masks.same_group(table(ids)),
            lambda: masks.sliding_window(draw(st.integers(1, TOKENS + 1))),
            lambda: masks.same_block(draw(st.integers(1, TOKENS))),
            lambda: masks.prefix(torch.tensor([2, 4])),
        ]
    )
    mask = draw(builders)()
    for _ in range(draw(st.integers(0, 2))):
        other = draw(builders)()
        mask = mask & other if draw(st.booleans()) else mask | other
    return mask


def dense(mask: Mask, length: int) -> torch.Tensor:
    return mask.dense(length, length, batch=ROWS).expand(ROWS, 1, length, length)[:, 0]


@given(random_masks(), st.integers(0, 4))
def test_masks_between_tokens_stay_and_virtual_tokens_are_visible(mask, virtual):
    extended = mask.with_virtual_tokens(virtual)
    allowed = dense(extended, virtual + TOKENS)
    extended.check_fits(rows=ROWS, keys=virtual + TOKENS, positions=virtual + TOKENS)
    assert torch.equal(allowed[:, virtual:, virtual:], dense(mask, TOKENS))
    assert bool(allowed[:, virtual:, :virtual].all())
    assert extended.components == mask.components


@given(random_masks(), st.integers(1, 4))
def test_the_structure_agrees_with_the_mask(mask, virtual):
    extended = mask.with_virtual_tokens(virtual)
    allowed, structure = dense(extended, virtual + TOKENS), extended.structure
    i, j = torch.arange(virtual + TOKENS)[:, None], torch.arange(virtual + TOKENS)
    if structure.pattern is not None:
        pattern = j <= i if structure.pattern == "causal" else torch.ones_like(j <= i)
        expected = pattern if structure.valid is None else pattern & structure.valid[:, None]
        assert torch.equal(allowed, expected.expand_as(allowed))
    if structure.band.right is not None:
        assert not bool((allowed & (j - i > structure.band.right)).any())
    if structure.band.left is not None:
        assert not bool((allowed & (i - j > structure.band.left)).any())
    if mask.structure.band.right == 0:
        assert not bool((allowed & (j > i)).any()), "virtual tokens leak no future"
    if mask.structure.pattern is None:
        assert not bool(allowed[:, :virtual, virtual:].any()), "virtual tokens attend to no token"


def test_positions_count_after_virtual_tokens_or_without_them():
    tokens = TokenPositions.of_padded(torch.tensor([[False, True, True], [True, True, True]]))
    extended = tokens.with_virtual_tokens(2, first=2)
    assert extended.ids.tolist() == [[0, 1, 2, 2, 3], [0, 1, 2, 3, 4]]
    assert extended.tokens is tokens
    assert extended.virtual_tokens == 2
    masked = tokens.with_virtual_tokens(2, first=0)
    assert masked.ids.tolist() == [[0, 0, 0, 0, 1], [0, 0, 0, 1, 2]]
    assert TokenPositions.of_row(3).with_virtual_tokens(2, first=2).in_order
    assert not TokenPositions.of_row(3).with_virtual_tokens(2, first=0).in_order
    assert tokens.with_virtual_tokens(0, first=0) is tokens
