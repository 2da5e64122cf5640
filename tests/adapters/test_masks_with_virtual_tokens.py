"""Masks behind virtual places: what they let pass between tokens stays, in front all is seen."""

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
            lambda: masks.lookback(draw(st.integers(0, TOKENS))),
            lambda: masks.same_block(draw(st.integers(1, TOKENS))),
            lambda: masks.prefix(torch.tensor([2, 4])),
        ]
    )
    mask = draw(one)()
    for _ in range(draw(st.integers(0, 2))):
        other = draw(one)()
        mask = mask & other if draw(st.booleans()) else mask | other
    return mask


def written(mask: Mask, positions: int) -> torch.Tensor:
    return mask.dense(positions, positions, batch=ROWS).expand(ROWS, 1, positions, positions)[:, 0]


@settings(max_examples=200, deadline=None)
@given(some_mask(), st.integers(0, 4))
def test_tokens_see_what_they_saw_and_all_that_stands_in_front(mask, virtual):
    behind = mask.behind(virtual)
    whole = written(behind, virtual + TOKENS)
    behind.check_fits(rows=ROWS, keys=virtual + TOKENS, positions=virtual + TOKENS)
    assert torch.equal(whole[:, virtual:, virtual:], written(mask, TOKENS))
    assert bool(whole[:, virtual:, :virtual].all())
    assert behind.parts == mask.parts


@settings(max_examples=200, deadline=None)
@given(some_mask(), st.integers(1, 4))
def test_what_is_known_of_them_stays_true(mask, virtual):
    behind = mask.behind(virtual)
    whole, structure = written(behind, virtual + TOKENS), behind.structure
    i, j = torch.arange(virtual + TOKENS)[:, None], torch.arange(virtual + TOKENS)
    if structure.pattern is not None:
        exact = j <= i if structure.pattern == "causal" else torch.ones_like(j <= i)
        seen = exact if structure.valid is None else exact & structure.valid[:, None]
        assert torch.equal(whole, seen.expand_as(whole))
    if structure.band.ahead is not None:
        assert not bool((whole & (j - i > structure.band.ahead)).any())
    if structure.band.back is not None:
        assert not bool((whole & (i - j > structure.band.back)).any())
    if mask.structure.band.ahead == 0:
        assert not bool((whole & (j > i)).any()), "no future is seen through them"
    if mask.structure.pattern is None:
        assert not bool(whole[:, :virtual, virtual:].any()), "they carry nothing on"


def test_places_are_counted_from_behind_them_or_as_if_they_were_not_there():
    tokens = TokenPositions.of_padded(torch.tensor([[False, True, True], [True, True, True]]))
    behind = tokens.behind(2, first=2)
    assert behind.ids.tolist() == [[0, 1, 2, 2, 3], [0, 1, 2, 3, 4]]
    assert behind.tokens is tokens
    assert behind.virtual == 2
    hidden = tokens.behind(2, first=0)
    assert hidden.ids.tolist() == [[0, 0, 0, 0, 1], [0, 0, 0, 1, 2]]
    assert TokenPositions.of_row(3).behind(2, first=2).in_order
    assert not TokenPositions.of_row(3).behind(2, first=0).in_order
    assert tokens.behind(0, first=0) is tokens
