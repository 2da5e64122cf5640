"""Mask expressions: parsed by a grammar, never evaluated."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.masks import mask
from regard.attention.masks.expression import names_without_numbers, parse_mask
from regard.attention.masks.mask import MASKS, Mask
from regard.core.errors import UserError

LENGTH = 9


def dense(mask: Mask) -> torch.Tensor:
    return mask.dense(LENGTH, LENGTH)


def same(text: str, expected: Mask) -> bool:
    return torch.equal(dense(parse_mask(text, LENGTH)), dense(expected))


a, b, c = mask.causal(), mask.sliding_window(4), mask.same_block(4)
documents = torch.tensor([[0] * 4 + [1] * 5])
all_but_two = torch.tensor([[True] * 7 + [False] * 2])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("causal", a),
        (" bidirectional ", mask.bidirectional()),
        ("sliding-window:4", b),
        ("sliding-window : 04", b),
        ("prefix:5", mask.prefix(torch.tensor([5]))),
        ("prefix:0", a),
        ("padding:2", mask.padding(all_but_two)),
        ("cross:2", mask.cross(all_but_two)),
        ("cross", mask.bidirectional()),
        ("same-block:4", c),
        ("same-document:4,5", mask.same_document(documents)),
        ("same-group: 4 , 5", mask.same_group(documents)),
        ("~causal|same-block:4&sliding-window:4", ~a | (c & b)),
        ("same-block:4 & sliding-window:4 | ~causal", (c & b) | ~a),
        ("same-block:4 & (sliding-window:4 | ~causal)", c & (b | ~a)),
        ("~(causal & same-block:4) | sliding-window:4", ~(a & c) | b),
        ("~causal & same-block:4", ~a & c),
        ("~~~causal", ~a),
        (
            "causal & sliding-window:4 | prefix:5 & ~same-block:4",
            (a & b) | (mask.prefix(torch.tensor([5])) & ~c),
        ),
    ],
)
def test_expressions_equal_composed_masks(text: str, expected: Mask):
    assert same(text, expected)


expressions = st.recursive(
    st.sampled_from(["causal", "sliding-window:4", "same-block:4", "prefix:5", "padding:2"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("&|"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda text: f"~{text}"),
    ),
    max_leaves=6,
)


@given(expressions, expressions)
def test_operators_compose_masks(left: str, right: str):
    x, y = parse_mask(left, LENGTH), parse_mask(right, LENGTH)
    assert same(f"{left} & {right}", x & y)
    assert same(f"{left} | {right}", x | y)
    assert same(f"~{left}", ~x)


def test_components_and_structure_are_kept():
    parsed = parse_mask("causal & padding:2", LENGTH)
    assert parsed.components == {"causal", "padding"}
    assert parsed.structure.pattern == "causal"


@given(st.text(alphabet="&|~():,- 035abcdeklops", max_size=30))
def test_any_text_gives_a_mask_or_a_user_error(text: str):
    try:
        parsed = parse_mask(text, LENGTH)
    except UserError:
        return
    assert dense(parsed).shape == (1, 1, LENGTH, LENGTH)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("causl", "unknown mask 'causl' — did you mean causal?"),
        (
            "causal & sliding-windw:4",
            "'causal & sliding-windw:4': unknown mask 'sliding-windw' — did you mean sliding-wi",
        ),
        ("lookback:3", "did you mean sliding-window:4\\?.*counts the query's own position"),
        ("", "ends where a mask should follow"),
        ("causal &", "ends where a mask should follow"),
        ("& causal", "'&' where a mask should stand"),
        ("()", "'\\)' where a mask should stand"),
        ("(causal", "bracket \\( is not closed"),
        ("causal)", "'\\)' after what is already a whole mask"),
        ("causal sliding-window:4", "'sliding-window' after what is already a whole mask"),
        ("sliding-window:-3", "':-3' cannot be read.*sliding-window:4"),
        ("causal and padding:1", "'and' after"),
        ("__import__('os')", "cannot be read"),
        ("sliding-window", "sliding-window takes 1 number and is given none.*sliding-window:3"),
        ("sliding-window:3,4", "takes 1 number and is given 3,4"),
        ("causal:3", "causal takes 0 numbers and is given 3. Write causal\\."),
        ("same-block:0", "a block has 1 position or more"),
        ("prefix:10", "prefix of 10 positions in a row of 9. Give it 0 to 9"),
        ("padding:10", "padding of 10 positions in a row of 9"),
        ("same-document:4,4", "has 8 positions in all, the row 9"),
        ("sliding-window:1234567891", "more than 9 digits"),
        ("sliding-window:" + "9" * 5000, "more than 9 digits"),
        ("(" * 5000 + "causal" + ")" * 5000, "10001 names and signs"),
        (" & ".join(["causal"] * 500), "999 names and signs"),
    ],
)
def test_invalid_expressions_are_refused(text: str, message: str):
    with pytest.raises(UserError, match=message) as error:
        parse_mask(text, LENGTH)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("text", ["(" * 90 + "causal" + ")" * 90, "~" * 190 + "causal"])
def test_the_deepest_expression_can_be_materialised(text: str):
    assert same(text, mask.causal())
    assert same("|".join(["same-block:4"] * 100), mask.same_block(4))


def test_default_numbers_of_names():
    numbers = {"sliding-window": (4,), "prefix": (2,)}
    assert torch.equal(dense(parse_mask("sliding-window", LENGTH, numbers=numbers)), dense(b))
    own = parse_mask("sliding-window:1", LENGTH, numbers=numbers)
    assert torch.equal(dense(own), dense(mask.sliding_window(1)))
    with pytest.raises(UserError, match="a window has 1 position or more"):
        parse_mask("sliding-window", LENGTH, numbers={"sliding-window": (-3,)})
    assert names_without_numbers("causal & sliding-window | ~prefix:3") == {
        "causal",
        "sliding-window",
    }


def test_every_mask_of_the_catalogue_can_be_parsed():
    for name in MASKS.names():
        if name in ("same-group", "same-document"):
            text = f"{name}:4,5"
        else:
            text = name if name in ("causal", "bidirectional", "cross") else f"{name}:3"
        assert dense(parse_mask(text, LENGTH)).shape == (1, 1, LENGTH, LENGTH)


def test_a_user_defined_mask_can_be_parsed(monkeypatch: pytest.MonkeyPatch):
    MASKS.names()
    monkeypatch.setattr(MASKS, "_entries", dict(MASKS._entries))

    @MASKS.add("every", needs="the step between keys")
    def every(positions: int, first: int) -> Mask:
        """Keys at equal steps."""
        return Mask(lambda b, h, i, j: (j - first) % positions == 0, "every")

    @MASKS.add("tabled", needs="a table")
    def tabled(table: torch.Tensor) -> Mask:
        """The pairs of a table."""
        return Mask(lambda b, h, i, j: table[i, j], "tabled")

    assert same("every:2,1 & causal", every(2, 1) & mask.causal())
    with pytest.raises(UserError, match="tabled needs a table"):
        parse_mask("tabled:3", LENGTH)


def test_a_row_needs_positions():
    with pytest.raises(UserError, match="a row of 0 positions"):
        parse_mask("causal", 0)
