"""Painted masks: cells by coordinates, on top of any expression."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.masks import mask
from regard.attention.masks.painted import MAX_RECTANGLES, paint, parse_cells
from regard.core.errors import UserError

LENGTH = 7
rectangles = st.lists(
    st.tuples(*(st.integers(0, LENGTH + 2) for _ in range(4))).map(
        lambda four: (*sorted(four[:2]), *sorted(four[2:]))
    ),
    max_size=4,
)


def written(one: tuple[int, int, int, int]) -> str:
    top, bottom, left, right = one
    short = (f"{a}" if a == b else f"{a}-{b}" for a, b in ((top, bottom), (left, right)))
    return ".".join(short)


@given(rectangles, rectangles)
def test_painted_cells_are_as_painted_and_all_others_as_before(allow, forbid):
    texts = [",".join(map(written, one)) for one in (allow, forbid)]
    painted = paint(
        mask.causal(), LENGTH, allow=parse_cells(texts[0]), forbid=parse_cells(texts[1])
    ).dense(LENGTH, LENGTH)[0, 0]
    for i in range(LENGTH):
        for j in range(LENGTH):
            inside = [
                any(top <= i <= bottom and left <= j <= right for top, bottom, left, right in one)
                for one in (allow, forbid)
            ]
            assert bool(painted[i, j]) == ((j <= i or inside[0]) and not inside[1])


def test_a_mask_that_is_not_changed_keeps_what_is_known_of_it():
    causal = mask.causal()
    assert paint(causal, 5, allow=parse_cells("3.1,9.9")) is causal
    assert not paint(causal, 5, allow=parse_cells("1.3")).is_causal


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("4", "names no cells"),
        ("4.7,", "names no cells"),
        ("4.7;5.8", "names no cells"),
        ("-1.2", "names no cells"),
        ("٤.٧", "names no cells"),
        ("4.123456", "names no cells"),
        ("5-4.1", "ends before it begins"),
        ("<script>", "names no cells"),
        (",".join(["1.1"] * (MAX_RECTANGLES + 1)), "pieces are painted"),
    ],
)
def test_what_names_no_cells_is_a_sentence(text, problem):
    with pytest.raises(UserError, match=problem):
        parse_cells(text)


def test_python_s_names_are_read_too():
    from regard.attention.masks.expression import parse_mask

    one = parse_mask("causal & sliding_window:4 | same_block:2", LENGTH)
    other = parse_mask("causal & sliding-window:4 | same-block:2", LENGTH)
    assert torch.equal(one.dense(LENGTH, LENGTH), other.dense(LENGTH, LENGTH))
