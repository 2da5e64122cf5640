"""Masks: True = may attend; they compose like the sets they are, and what they know is true."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.attend import STRIPE, attend
from regard.attention.function import HeadShape
from regard.attention.kinds import ATTENTION
from regard.attention.masks import mask
from regard.attention.masks.mask import MASKS, Mask
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError

LENGTH = 9  # "Jill Birt [MASK] outdoor activities" + "He was [MASK] hiking": 5 and 4 tokens
ROWS = 2


def table(rows: str) -> torch.Tensor:
    return torch.tensor([[cell == "■" for cell in row.split()] for row in rows.split("\n")])


class TestEachMask:
    def test_the_three_masks_of_the_specification(self):
        everything = mask.bidirectional().dense(LENGTH, LENGTH)[0, 0]
        past = mask.causal().dense(LENGTH, LENGTH)[0, 0]
        sequence = mask.prefix(torch.tensor([5])).dense(LENGTH, LENGTH)[0, 0]
        assert everything.all()
        assert torch.equal(past, torch.ones(LENGTH, LENGTH).tril().bool())
        assert torch.equal(
            sequence,
            table(
                "■ ■ ■ ■ ■ · · · ·\n" * 5
                + "■ ■ ■ ■ ■ ■ · · ·\n"
                + "■ ■ ■ ■ ■ ■ ■ · ·\n"
                + "■ ■ ■ ■ ■ ■ ■ ■ ·\n"
                + "■ ■ ■ ■ ■ ■ ■ ■ ■"
            ),
        )

    def test_a_sliding_window_counts_the_query_itself(self):
        drawn = mask.sliding_window(3).draw(5)
        assert drawn == "■ · · · ·\n■ ■ · · ·\n■ ■ ■ · ·\n· ■ ■ ■ ·\n· · ■ ■ ■"
        assert mask.sliding_window(1).draw(2) == "■ ·\n· ■"

    def test_same_block_cuts_the_row_and_the_last_block_may_be_short(self):
        assert mask.same_block(2).draw(3) == "■ ■ ·\n■ ■ ·\n· · ■"

    def test_masks_that_carry_data_follow_their_row(self):
        valid = torch.tensor([[True, True, False], [True, True, True]])
        for made in (mask.padding(valid), mask.cross(valid)):
            dense = made.dense(2, 3, batch=2)
            assert dense.shape == (2, 1, 2, 3)
            assert torch.equal(dense[0, 0], table("■ ■ ·\n■ ■ ·"))
            assert dense[1].all()
        for of in (mask.same_document, mask.same_group):
            groups = of(torch.tensor([[0, 0, 1]])).dense(3, 3)
            assert torch.equal(groups[0, 0], table("■ ■ ·\n■ ■ ·\n· · ■"))

    def test_a_table_of_one_row_holds_for_every_row(self):
        once = mask.padding(torch.tensor([[True, False]]))
        assert torch.equal(once.dense(2, 2, batch=3), once.dense(2, 2).expand(1, 1, 2, 2))
        assert not once.dense(2, 2, batch=3)[..., 1].any()

    def test_a_cached_query_keeps_its_place(self):
        late = mask.causal().dense(1, 5, first_query=3)[0, 0]
        assert late.tolist() == [[True, True, True, True, False]]

    def test_all_masks_of_the_specification_are_in_the_catalogue(self):
        assert {
            *("causal", "bidirectional", "padding", "prefix", "sliding-window"),
            *("same-group", "same-document", "cross", "same-block"),
        } <= set(MASKS.names())
        for entry in MASKS:
            assert entry.summary
            assert entry.properties["needs"]


class TestWrongSizes:
    @pytest.mark.parametrize(
        ("make", "says"),
        [
            (lambda: mask.sliding_window(0), "sliding_window\\(0\\): .* 1 position or more. Give"),
            (lambda: mask.sliding_window(1.5), "sliding_window\\(1.5\\): .* whole number, 1 or"),
            (lambda: mask.same_block(2.0), "same_block\\(2.0\\): .* Give a whole number, 1 or"),
            (lambda: mask.prefix(3), "prefix: a int and not a tensor. Give one number for each"),
            (lambda: mask.prefix(torch.ones(2)), "prefix: numbers of type float32.*integers"),
            (lambda: mask.padding([[True]]), "padding: a list and not a tensor"),
            (lambda: mask.padding(torch.ones(1, 3)), "padding: a table of float32, not of True"),
            (lambda: mask.cross(torch.ones(1, 3).long()), "cross: a table of int64, not of True"),
            (lambda: mask.same_group(torch.ones(1, 3)), "same-group: numbers of type float32"),
            (lambda: mask.same_block(0), "same_block\\(0\\): .* 1 position or more"),
            (lambda: mask.padding(torch.ones(3)), r"padding: a table of shape \(3,\).*\(rows, po"),
            (
                lambda: mask.prefix(torch.ones(1, 3)),
                r"prefix: lengths of shape \(1, 3\).*one number",
            ),
            (
                lambda: mask.padding(torch.ones(1, 3).bool()) & mask.cross(torch.ones(1, 4).bool()),
                r"different sizes are combined: \(1, 3\) and \(1, 4\)",
            ),
        ],
    )
    def test_what_cannot_be_a_mask_is_refused(self, make: Callable[[], Mask], says: str):
        with pytest.raises(UserError, match=says):
            make()

    @pytest.mark.parametrize("of", [mask.padding, mask.cross, mask.same_group, mask.same_document])
    @pytest.mark.parametrize("need_weights", [False, True])
    def test_too_few_places_or_rows_are_named(self, of, need_weights: bool):
        x = torch.randn(3, 1, 5, 2)
        with pytest.raises(UserError, match="covers 4 positions, and 5 are needed"):
            attend(x, x, x, of(torch.ones(3, 4).bool()), need_weights=need_weights)
        with pytest.raises(UserError, match="covers 2 rows, and 3 are needed"):
            attend(x, x, x, of(torch.ones(2, 5).bool()), need_weights=need_weights)

    @pytest.mark.parametrize("of", [mask.padding, mask.cross, mask.same_group, mask.same_document])
    @pytest.mark.parametrize("need_weights", [False, True])
    @pytest.mark.parametrize(
        "composed", [lambda m: m, lambda m: ~m, lambda m: m | mask.causal(), lambda m: ~m & m]
    )
    def test_too_many_places_or_rows_are_named(self, of, need_weights: bool, composed):
        x = torch.randn(3, 1, 5, 2)
        with pytest.raises(UserError, match="covers 6 positions, and 5 are needed"):
            attend(x, x, x, composed(of(torch.ones(3, 6).bool())), need_weights=need_weights)
        with pytest.raises(UserError, match="covers 4 rows, and 3 are needed"):
            attend(x, x, x, composed(of(torch.ones(4, 5).bool())), need_weights=need_weights)

    def test_a_table_speaks_of_whole_rows_also_where_queries_are_the_last_places(self):
        x = torch.randn(3, 1, 5, 2)
        for of in (mask.padding, mask.same_group):
            late = attend(x[:, :, 3:], x, x, of(torch.ones(3, 5).bool()), first_query=3).out
            assert torch.allclose(late, attend(x, x, x).out[:, :, 3:], atol=1e-6)

    @pytest.mark.parametrize("rows", [2, 4])
    def test_another_number_of_prefix_lengths_is_named(self, rows: int):
        x = torch.randn(3, 1, 5, 2)
        with pytest.raises(UserError, match=f"prefix covers {rows} rows, and 3 are needed"):
            attend(x, x, x, mask.prefix(torch.ones(rows).long()))

    @pytest.mark.parametrize("kind", ["linear", "synthesizer-random"])
    def test_mixers_with_a_way_of_their_own_refuse_other_sizes_too(self, kind: str):
        mixer = build_mixer(ATTENTION.get(kind).part(), HeadShape(2, 2))
        made = mask.causal() & mask.padding(torch.ones(1, 7).bool())
        with pytest.raises(UserError, match="padding covers 7 positions, and 4 are needed"):
            mixer(
                torch.randn(1, 4, 4),
                mask=made,
                positions=TokenPositions.of_row(4),
                cache=mixer.new_cache(9),
            )

    def test_a_tensor_is_no_mask(self):
        x = torch.randn(1, 1, 5, 2)
        with pytest.raises(UserError, match=r"the mask is a Tensor, not a Mask.*Mask\(lambda"):
            attend(x, x, x, torch.ones(5, 5).bool())

    def test_each_key_has_a_value(self):
        x = torch.randn(1, 1, 5, 2)
        with pytest.raises(UserError, match=r"5 keys and 4 values\. Give each key one value"):
            attend(x, x, x[:, :, :4])


# A leaf is a mask beside a plain-Python statement of what it allows at (b, i, j).
Leaf = tuple[Mask, Callable[[int, int, int], bool]]


@st.composite
def leaves(draw: st.DrawFn, length: int, *, reach: int) -> Leaf:
    # Tables come from a seed: Hypothesis would take long to draw hundreds of cells one by one.
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    numbers = torch.randint(0, 3, (ROWS, length), generator=generator)
    rows, valid = numbers.tolist(), numbers > 0
    first = torch.randint(0, length + 1, (ROWS,), generator=generator).tolist()
    few = draw(st.integers(0, reach))
    all_leaves: list[Leaf] = [
        (mask.causal(), lambda b, i, j: j <= i),
        (mask.bidirectional(), lambda b, i, j: True),
        (mask.padding(valid), lambda b, i, j: rows[b][j] > 0),
        (mask.cross(valid), lambda b, i, j: rows[b][j] > 0),
        (mask.sliding_window(few + 1), lambda b, i, j: 0 <= i - j <= few),
        (mask.same_block(few + 1), lambda b, i, j: i // (few + 1) == j // (few + 1)),
        (mask.same_group(numbers), lambda b, i, j: rows[b][i] == rows[b][j]),
        (mask.same_document(numbers), lambda b, i, j: rows[b][i] == rows[b][j]),
        (
            mask.prefix(torch.tensor(first)),
            lambda b, i, j: j < first[b] if i < first[b] else j <= i,
        ),
    ]
    return draw(st.sampled_from(all_leaves))


def composed(length: int, *, reach: int = 4) -> st.SearchStrategy[Leaf]:
    """Masks made of masks, beside what they should allow."""
    return st.recursive(
        leaves(length, reach=reach),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(
                lambda ab: (ab[0][0] & ab[1][0], lambda *at: ab[0][1](*at) and ab[1][1](*at))
            ),
            st.tuples(inner, inner).map(
                lambda ab: (ab[0][0] | ab[1][0], lambda *at: ab[0][1](*at) or ab[1][1](*at))
            ),
            inner.map(lambda a: (~a[0], lambda *at: not a[1](*at))),
        ),
        max_leaves=5,
    )


def dense(one: Mask, length: int) -> torch.Tensor:
    return one.dense(length, length, batch=ROWS).expand(ROWS, 1, length, length)


def stated(allows: Callable[[int, int, int], bool], length: int) -> torch.Tensor:
    cells = range(length)
    rows = [[[allows(b, i, j) for j in cells] for i in cells] for b in range(ROWS)]
    return torch.tensor(rows)[:, None]


class TestAlgebra:
    @settings(max_examples=100, deadline=None)
    @given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), composed(n))))
    def test_a_composed_mask_allows_what_its_statement_says(self, drawn: tuple[int, Leaf]):
        length, (made, allows) = drawn
        assert torch.equal(dense(made, length), stated(allows, length))

    @settings(max_examples=40, deadline=None)
    @given(composed(6), composed(6), composed(6))
    def test_the_laws_of_sets(self, a: Leaf, b: Leaf, c: Leaf):
        x, y, z = a[0], b[0], c[0]
        for one, other in [
            (~(x & y), ~x | ~y),
            (~(x | y), ~x & ~y),
            (~~x, x),
            (x & (y | z), (x & y) | (x & z)),
            (x | (y & z), (x | y) & (x | z)),
            (x & mask.bidirectional(), x),
            (x & ~x, ~mask.bidirectional()),
            (x | ~x, mask.bidirectional()),
        ]:
            assert torch.equal(dense(one, 6), dense(other, 6))

    @settings(max_examples=100, deadline=None)
    @given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), composed(n))))
    def test_what_is_known_is_true(self, drawn: tuple[int, Leaf]):
        length, (made, _) = drawn
        written, structure = dense(made, length), made.structure
        i, j = torch.arange(length)[:, None], torch.arange(length)[None]
        if structure.pattern is not None:
            exact = (j <= i) if structure.pattern == "causal" else torch.ones(length, length).bool()
            seen = torch.ones(1, length).bool() if structure.valid is None else structure.valid
            assert torch.equal(written, (exact & seen[:, None, None]).expand_as(written))
        if structure.band.left is not None:
            assert not written[..., i - j > structure.band.left].any()
        if structure.band.right is not None:
            assert not written[..., j - i > structure.band.right].any()
        if structure.block_size is not None:
            assert not written[..., i // structure.block_size != j // structure.block_size].any()

    def test_what_speeds_attention_up_survives_composition(self):
        valid = torch.ones(1, 5).bool()
        kept = (mask.causal() & mask.padding(valid)).structure
        assert kept.pattern == "causal"
        assert kept.valid is valid
        assert (mask.sliding_window(4) & mask.sliding_window(6)).structure.band == (3, 0)
        assert (mask.sliding_window(4) | mask.sliding_window(6)).structure.band == (5, 0)
        assert (mask.same_block(4) & mask.causal()).structure.block_size == 4
        assert (mask.same_block(4) | mask.causal()).structure.block_size is None
        assert (~mask.causal()).structure == mask.MaskStructure()


def both_ways(made: Mask, *, length: int, bias: bool, seed: int) -> list[list[torch.Tensor]]:
    """Output and gradients by the path that `attend` chooses, and by the explicit one."""
    answers = []
    for need_weights in (False, True):
        generator = torch.Generator().manual_seed(seed)
        shapes = [(ROWS, 2, length, 3)] * 3 + [(1, 2, length, length)] * bias
        given = [
            torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
            for shape in shapes
        ]
        out = attend(
            *given[:3], made, bias=given[3] if bias else None, need_weights=need_weights
        ).out
        (out * torch.arange(1.0, 4.0, dtype=torch.float64)).sum().backward()
        answers.append([out.detach(), *(tensor.grad for tensor in given)])
    return answers


def assert_equal(answers: list[list[torch.Tensor]]) -> None:
    for fast, readable in zip(*answers, strict=True):
        assert torch.isfinite(fast).all()
        scale = max(1.0, float(readable.abs().max()))
        assert float((fast - readable).abs().max()) / scale <= 1e-12


class TestLowering:
    @settings(max_examples=40, deadline=None)
    @given(
        drawn=st.sampled_from([1, 2, 7, 2 * STRIPE, 2 * STRIPE + 1, 140, 3 * STRIPE + 1]).flatmap(
            lambda n: st.tuples(st.just(n), composed(n, reach=5))
        ),
        bias=st.booleans(),
        seed=st.integers(0, 1000),
    )
    def test_any_mask_equals_the_readable_path(self, drawn, bias: bool, seed: int):
        length, (made, _) = drawn
        assert_equal(both_ways(made, length=length, bias=bias, seed=seed))

    @pytest.mark.parametrize(
        ("made", "length", "bias", "path"),
        [
            (mask.causal(), 7, False, "fused-causal"),
            (mask.causal(), 7, True, "fused-dense"),
            (mask.bidirectional(), 7, False, "fused-everything"),
            (mask.sliding_window(3), 7, False, "fused-dense"),
            (mask.sliding_window(3), 2 * (STRIPE + 2), False, "fused-dense"),
            (mask.sliding_window(3), 2 * (STRIPE + 2) + 1, False, "stripes, fused-dense"),
            (mask.sliding_window(3), 2 * (STRIPE + 2) + 1, True, "stripes, fused-dense"),
            (mask.sliding_window(3) & mask.causal(), 3 * STRIPE, False, "stripes, fused-dense"),
            (mask.same_block(4), 4, False, "fused-dense"),
            (mask.same_block(4), 8, False, "blocks, fused-everything"),
            (mask.same_block(4), 9, False, "blocks, fused-dense"),
            (mask.same_block(4) & mask.causal(), 11, False, "blocks, fused-causal"),
            (mask.same_block(4) & mask.sliding_window(3), 11, False, "blocks, fused-dense"),
            (mask.same_block(4) & mask.same_block(3), 11, False, "blocks, fused-dense"),
            (mask.same_block(4), 9, True, "fused-dense"),
            (mask.same_block(4), 3 * STRIPE, True, "stripes, fused-dense"),
            (mask.same_block(200), 3 * STRIPE, False, "fused-dense"),
        ],
    )
    def test_each_path_is_taken_where_it_should_be(self, made, length, bias, path):
        x = torch.randn(1, 2, length, 3, dtype=torch.float64)
        added = torch.randn(1, 2, length, length, dtype=torch.float64) if bias else None
        assert attend(x, x, x, made, bias=added).path == path
        assert_equal(both_ways(made, length=length, bias=bias, seed=0))

    @settings(max_examples=40, deadline=None)
    @given(
        drawn=st.sampled_from([2, 9, 2 * STRIPE + 10, 3 * STRIPE + 1]).flatmap(
            lambda n: st.tuples(st.just(n), composed(n, reach=5), st.integers(1, n))
        )
    )
    def test_cached_queries_see_what_they_see_in_the_whole(self, drawn: tuple[int, Leaf, int]):
        length, (made, _), last = drawn
        generator = torch.Generator().manual_seed(0)
        q, k, v = torch.randn(3, ROWS, 2, length, 3, generator=generator, dtype=torch.float64)
        whole = attend(q, k, v, made).out[:, :, length - last :]
        late = attend(q[:, :, length - last :], k, v, made, first_query=length - last).out
        assert float((whole - late).abs().max()) <= 1e-12

    def test_queries_past_the_last_key_get_zeros(self):
        generator = torch.Generator().manual_seed(0)
        q = torch.randn(1, 1, 5 * STRIPE, 3, generator=generator, dtype=torch.float64)
        k = v = q[:, :, : 2 * STRIPE + 20]
        attended = attend(q, k, v, mask.sliding_window(3))
        assert attended.path.startswith("stripes")
        readable = attend(q, k, v, mask.sliding_window(3), need_weights=True).out
        assert torch.allclose(attended.out, readable, atol=1e-12)
        assert not attended.out[:, :, k.shape[2] + 2 :].any()
