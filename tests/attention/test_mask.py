"""Masks: True = may attend; they compose like the sets they are."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import mask
from regard.errors import UserError

LENGTH = 9  # "Jill Birt [MASK] outdoor activities" + "He was [MASK] hiking": 5 and 4 tokens


def table(rows: str) -> torch.Tensor:
    return torch.tensor([[cell == "■" for cell in row.split()] for row in rows.split("\n")])


def test_the_three_masks_of_the_specification():
    everything = mask.bidirectional().dense(LENGTH, LENGTH)[0, 0]
    past = mask.causal().dense(LENGTH, LENGTH)[0, 0]
    sequence = mask.prefix(torch.tensor([5])).dense(LENGTH, LENGTH)[0, 0]
    assert everything.all()
    assert torch.equal(past, torch.ones(LENGTH, LENGTH).tril().bool())
    assert sequence[:5, :5].all()
    assert not sequence[:5, 5:].any()
    assert sequence[5:, :5].all()
    assert torch.equal(sequence[5:, 5:], torch.ones(4, 4).tril().bool())


def test_lookback_counts_places_before_the_query():
    drawn = mask.lookback(2).draw(5)
    assert drawn == "■ · · · ·\n■ ■ · · ·\n■ ■ ■ · ·\n· ■ ■ ■ ·\n· · ■ ■ ■"
    with pytest.raises(UserError, match="0 places or more"):
        mask.lookback(-1)


def test_masks_that_carry_data_follow_their_row():
    valid = torch.tensor([[True, True, False], [True, True, True]])
    dense = mask.padding(valid).dense(2, 3, batch=2)
    assert dense.shape == (2, 1, 2, 3)
    assert torch.equal(dense[0, 0], table("■ ■ ·\n■ ■ ·"))
    assert dense[1].all()
    groups = mask.same_document(torch.tensor([[0, 0, 1]])).dense(3, 3)
    assert torch.equal(groups[0, 0], table("■ ■ ·\n■ ■ ·\n· · ■"))


def test_a_cached_query_keeps_its_place():
    late = mask.causal().dense(1, 5, first_query=3)[0, 0]
    assert late.tolist() == [[True, True, True, True, False]]


some_mask = st.sampled_from(
    [
        mask.causal(),
        mask.bidirectional(),
        mask.lookback(2),
        mask.prefix(torch.tensor([3, 1])),
        mask.padding(torch.tensor([[True] * 4 + [False], [True] * 5])),
    ]
)


def dense(one: mask.Mask) -> torch.Tensor:
    return one.dense(5, 5, batch=2).expand(2, 1, 5, 5)


@given(some_mask, some_mask)
def test_composition_is_boolean_algebra(one: mask.Mask, other: mask.Mask):
    assert torch.equal(dense(one & other), dense(one) & dense(other))
    assert torch.equal(dense(one | other), dense(one) | dense(other))
    assert torch.equal(dense(~one), ~dense(one))
    assert torch.equal(dense(~(one & other)), dense(~one | ~other))


@given(some_mask, some_mask)
def test_a_hint_is_never_wrong(one: mask.Mask, other: mask.Mask):
    for made in (one, ~one, one & other, one | other):
        if made.hint == "everything":
            assert dense(made).all()
        if made.hint == "causal":
            assert torch.equal(dense(made), dense(mask.causal()))
