"""Masks: each by hand, their algebra, their structure, and the paths chosen for them."""

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


def bool_table(rows: str) -> torch.Tensor:
    return torch.tensor([[cell == "■" for cell in row.split()] for row in rows.split("\n")])


class TestEachMask:
    def test_bidirectional_causal_and_prefix(self):
        bidirectional = mask.bidirectional().dense(LENGTH, LENGTH)[0, 0]
        causal = mask.causal().dense(LENGTH, LENGTH)[0, 0]
        prefix = mask.prefix(torch.tensor([5])).dense(LENGTH, LENGTH)[0, 0]
        assert bidirectional.all()
        assert torch.equal(causal, torch.ones(LENGTH, LENGTH).tril().bool())
        visible = [5] * 5 + [6, 7, 8, 9]
        assert prefix.tolist() == [[j < count for j in range(LENGTH)] for count in visible]

    def test_a_sliding_window_counts_the_query_itself(self):
        visible = [{0}, {0, 1}, {0, 1, 2}, {1, 2, 3}, {2, 3, 4}]
        window = mask.sliding_window(3).dense(5, 5)[0, 0]
        assert window.tolist() == [[j in keys for j in range(5)] for keys in visible]
        assert mask.sliding_window(1).draw(2) == "■ ·\n· ■"

    def test_the_last_block_of_same_block_may_be_shorter(self):
        assert mask.same_block(2).draw(3) == "■ ■ ·\n■ ■ ·\n· · ■"

    def test_masks_with_tables_differ_between_rows(self):
        valid = torch.tensor([[True, True, False], [True, True, True]])
        for built in (mask.padding(valid), mask.cross(valid)):
            dense = built.dense(2, 3, batch=2)
            assert dense.shape == (2, 1, 2, 3)
            assert torch.equal(dense[0, 0], bool_table("■ ■ ·\n■ ■ ·"))
            assert dense[1].all()
        for build in (mask.same_document, mask.same_group):
            groups = build(torch.tensor([[0, 0, 1]])).dense(3, 3)
            assert torch.equal(groups[0, 0], bool_table("■ ■ ·\n■ ■ ·\n· · ■"))

    def test_a_table_of_one_row_holds_for_every_row(self):
        one_row = mask.padding(torch.tensor([[True, False]]))
        assert torch.equal(one_row.dense(2, 2, batch=3), one_row.dense(2, 2).expand(1, 1, 2, 2))
        assert not one_row.dense(2, 2, batch=3)[..., 1].any()

    def test_first_query_is_the_position_of_a_cached_query(self):
        dense = mask.causal().dense(1, 5, first_query=3)[0, 0]
        assert dense.tolist() == [[True, True, True, True, False]]

    def test_the_catalogue_has_all_masks(self):
        assert {
            *("causal", "bidirectional", "padding", "prefix", "sliding-window"),
            *("same-group", "same-document", "cross", "same-block"),
        } <= set(MASKS.names())
        for entry in MASKS:
            assert entry.summary
            assert entry.properties["needs"]


class TestWrongSizes:
    @pytest.mark.parametrize(
        ("build", "message"),
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
    def test_invalid_arguments_are_refused(self, build: Callable[[], Mask], message: str):
        with pytest.raises(UserError, match=message):
            build()

    @pytest.mark.parametrize(
        "build", [mask.padding, mask.cross, mask.same_group, mask.same_document]
    )
    @pytest.mark.parametrize("need_weights", [False, True])
    def test_too_small_tables_are_refused(self, build, need_weights: bool):
        x = torch.randn(3, 1, 5, 2)
        with pytest.raises(UserError, match="covers 4 positions, and 5 are needed"):
            attend(x, x, x, build(torch.ones(3, 4).bool()), need_weights=need_weights)
        with pytest.raises(UserError, match="covers 2 rows, and 3 are needed"):
            attend(x, x, x, build(torch.ones(2, 5).bool()), need_weights=need_weights)

    @pytest.mark.parametrize(
        "build", [mask.padding, mask.cross, mask.same_group, mask.same_document]
    )
    @pytest.mark.parametrize("need_weights", [False, True])
    @pytest.mark.parametrize(
        "compose", [lambda m: m, lambda m: ~m, lambda m: m | mask.causal(), lambda m: ~m & m]
    )
    def test_too_large_tables_are_refused(self, build, need_weights: bool, compose):
        x = torch.randn(3, 1, 5, 2)
        with pytest.raises(UserError, match="covers 6 positions, and 5 are needed"):
            attend(x, x, x, compose(build(torch.ones(3, 6).bool())), need_weights=need_weights)
        with pytest.raises(UserError, match="covers 4 rows, and 3 are needed"):
            attend(x, x, x, compose(build(torch.ones(4, 5).bool())), need_weights=need_weights)

    def test_a_table_covers_the_whole_row_when_queries_are_its_last_positions(self):
        x = torch.randn(3, 1, 5, 2)
        for build in (mask.padding, mask.same_group):
            last = attend(x[:, :, 3:], x, x, build(torch.ones(3, 5).bool()), first_query=3).out
            assert torch.allclose(last, attend(x, x, x).out[:, :, 3:], atol=1e-6)

    @pytest.mark.parametrize("rows", [2, 4])
    def test_a_wrong_number_of_prefix_lengths_is_refused(self, rows: int):
        x = torch.randn(3, 1, 5, 2)
        with pytest.raises(UserError, match=f"prefix covers {rows} rows, and 3 are needed"):
            attend(x, x, x, mask.prefix(torch.ones(rows).long()))

    @pytest.mark.parametrize("kind", ["linear", "synthesizer-random"])
    def test_mixers_that_do_not_call_attend_refuse_wrong_sizes_too(self, kind: str):
        mixer = build_mixer(ATTENTION.get(kind).part(), HeadShape(2, 2))
        wrong_size = mask.causal() & mask.padding(torch.ones(1, 7).bool())
        with pytest.raises(UserError, match=r"padding\b.* 7 positions.* 4 "):
            mixer(
                torch.randn(1, 4, 4),
                mask=wrong_size,
                positions=TokenPositions.of_row(4),
                cache=mixer.new_cache(9),
            )

    def test_a_tensor_is_refused_as_a_mask(self):
        x = torch.randn(1, 1, 5, 2)
        with pytest.raises(UserError, match=r"Tensor, not a Mask.*Mask\(lambda"):
            attend(x, x, x, torch.ones(5, 5).bool())

    def test_keys_without_values_are_refused(self):
        x = torch.randn(1, 1, 5, 2)
        with pytest.raises(UserError, match="5 keys and 4 values"):
            attend(x, x, x[:, :, :4])


# A mask and a plain-Python predicate of what it allows at (b, i, j).
Leaf = tuple[Mask, Callable[[int, int, int], bool]]


@st.composite
def leaves(draw: st.DrawFn, length: int, *, max_reach: int) -> Leaf:
    # Tables come from a seed: Hypothesis is slow at drawing hundreds of cells one by one.
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    ids = torch.randint(0, 3, (ROWS, length), generator=generator)
    rows, valid = ids.tolist(), ids > 0
    prefixes = torch.randint(0, length + 1, (ROWS,), generator=generator).tolist()
    reach = draw(st.integers(0, max_reach))
    all_leaves: list[Leaf] = [
        (mask.causal(), lambda b, i, j: j <= i),
        (mask.bidirectional(), lambda b, i, j: True),
        (mask.padding(valid), lambda b, i, j: rows[b][j] > 0),
        (mask.cross(valid), lambda b, i, j: rows[b][j] > 0),
        (mask.sliding_window(reach + 1), lambda b, i, j: 0 <= i - j <= reach),
        (mask.same_block(reach + 1), lambda b, i, j: i // (reach + 1) == j // (reach + 1)),
        (mask.same_group(ids), lambda b, i, j: rows[b][i] == rows[b][j]),
        (mask.same_document(ids), lambda b, i, j: rows[b][i] == rows[b][j]),
        (
            mask.prefix(torch.tensor(prefixes)),
            lambda b, i, j: j < prefixes[b] if i < prefixes[b] else j <= i,
        ),
    ]
    return draw(st.sampled_from(all_leaves))


def composed_masks(length: int, *, max_reach: int = 4) -> st.SearchStrategy[Leaf]:
    """Composed masks with their predicates."""
    return st.recursive(
        leaves(length, max_reach=max_reach),
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


def dense(mask: Mask, length: int) -> torch.Tensor:
    return mask.dense(length, length, batch=ROWS).expand(ROWS, 1, length, length)


def dense_predicate(allows: Callable[[int, int, int], bool], length: int) -> torch.Tensor:
    cells = range(length)
    rows = [[[allows(b, i, j) for j in cells] for i in cells] for b in range(ROWS)]
    return torch.tensor(rows)[:, None]


class TestAlgebra:
    @given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), composed_masks(n))))
    def test_a_composed_mask_equals_its_predicate(self, drawn: tuple[int, Leaf]):
        length, (built, allows) = drawn
        assert torch.equal(dense(built, length), dense_predicate(allows, length))

    @settings(max_examples=40, deadline=None)
    @given(composed_masks(6), composed_masks(6), composed_masks(6))
    def test_boolean_algebra(self, a: Leaf, b: Leaf, c: Leaf):
        x, y, z = a[0], b[0], c[0]
        for left, right in [
            (~(x & y), ~x | ~y),
            (~(x | y), ~x & ~y),
            (~~x, x),
            (x & (y | z), (x & y) | (x & z)),
            (x | (y & z), (x | y) & (x | z)),
            (x & mask.bidirectional(), x),
            (x & ~x, ~mask.bidirectional()),
            (x | ~x, mask.bidirectional()),
        ]:
            assert torch.equal(dense(left, 6), dense(right, 6))

    @given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), composed_masks(n))))
    def test_the_structure_agrees_with_the_mask(self, drawn: tuple[int, Leaf]):
        length, (built, _) = drawn
        allowed, structure = dense(built, length), built.structure
        i, j = torch.arange(length)[:, None], torch.arange(length)[None]
        if structure.pattern is not None:
            pattern = (
                (j <= i) if structure.pattern == "causal" else torch.ones(length, length).bool()
            )
            valid = torch.ones(1, length).bool() if structure.valid is None else structure.valid
            assert torch.equal(allowed, (pattern & valid[:, None, None]).expand_as(allowed))
        if structure.band.left is not None:
            assert not allowed[..., i - j > structure.band.left].any()
        if structure.band.right is not None:
            assert not allowed[..., j - i > structure.band.right].any()
        if structure.block_size is not None:
            assert not allowed[..., i // structure.block_size != j // structure.block_size].any()

    def test_structure_survives_composition(self):
        valid = torch.ones(1, 5).bool()
        structure = (mask.causal() & mask.padding(valid)).structure
        assert structure.pattern == "causal"
        assert structure.valid is valid
        assert (mask.sliding_window(4) & mask.sliding_window(6)).structure.band == (3, 0)
        assert (mask.sliding_window(4) | mask.sliding_window(6)).structure.band == (5, 0)
        assert (mask.same_block(4) & mask.causal()).structure.block_size == 4
        assert (mask.same_block(4) | mask.causal()).structure.block_size is None
        assert (~mask.causal()).structure == mask.MaskStructure()


def fast_and_explicit(
    mask: Mask, *, length: int, bias: bool, seed: int
) -> list[list[torch.Tensor]]:
    """Output and gradients by the path that `attend` chooses, and by the explicit one."""
    results = []
    for need_weights in (False, True):
        generator = torch.Generator().manual_seed(seed)
        shapes = [(ROWS, 2, length, 3)] * 3 + [(1, 2, length, length)] * bias
        inputs = [
            torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
            for shape in shapes
        ]
        out = attend(
            *inputs[:3], mask, bias=inputs[3] if bias else None, need_weights=need_weights
        ).out
        (out * torch.arange(1.0, 4.0, dtype=torch.float64)).sum().backward()
        results.append([out.detach(), *(tensor.grad for tensor in inputs)])
    return results


def assert_equal(results: list[list[torch.Tensor]]) -> None:
    for fast, explicit in zip(*results, strict=True):
        assert torch.isfinite(fast).all()
        scale = max(1.0, float(explicit.abs().max()))
        assert float((fast - explicit).abs().max()) / scale <= 1e-12


class TestPaths:
    @settings(max_examples=40, deadline=None)
    @given(
        drawn=st.sampled_from([1, 2, 7, 2 * STRIPE, 2 * STRIPE + 1, 140, 3 * STRIPE + 1]).flatmap(
            lambda n: st.tuples(st.just(n), composed_masks(n, max_reach=5))
        ),
        bias=st.booleans(),
        seed=st.integers(0, 1000),
    )
    def test_any_mask_equals_the_explicit_path(self, drawn, bias: bool, seed: int):
        length, (built, _) = drawn
        assert_equal(fast_and_explicit(built, length=length, bias=bias, seed=seed))

    @pytest.mark.parametrize(
        ("built", "length", "bias", "path"),
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
    def test_the_path_follows_from_the_structure(self, built, length, bias, path):
        x = torch.randn(1, 2, length, 3, dtype=torch.float64)
        scores_bias = torch.randn(1, 2, length, length, dtype=torch.float64) if bias else None
        assert attend(x, x, x, built, bias=scores_bias).path == path
        assert_equal(fast_and_explicit(built, length=length, bias=bias, seed=0))

    @settings(max_examples=40, deadline=None)
    @given(
        drawn=st.sampled_from([2, 9, 2 * STRIPE + 10, 3 * STRIPE + 1]).flatmap(
            lambda n: st.tuples(st.just(n), composed_masks(n, max_reach=5), st.integers(1, n))
        )
    )
    def test_cached_queries_equal_one_pass(self, drawn: tuple[int, Leaf, int]):
        length, (built, _), last = drawn
        generator = torch.Generator().manual_seed(0)
        q, k, v = torch.randn(3, ROWS, 2, length, 3, generator=generator, dtype=torch.float64)
        one_pass = attend(q, k, v, built).out[:, :, length - last :]
        cached = attend(q[:, :, length - last :], k, v, built, first_query=length - last).out
        assert float((one_pass - cached).abs().max()) <= 1e-12

    def test_queries_past_the_last_key_get_zeros(self):
        generator = torch.Generator().manual_seed(0)
        q = torch.randn(1, 1, 5 * STRIPE, 3, generator=generator, dtype=torch.float64)
        k = v = q[:, :, : 2 * STRIPE + 20]
        attended = attend(q, k, v, mask.sliding_window(3))
        assert attended.path.startswith("stripes")
        explicit = attend(q, k, v, mask.sliding_window(3), need_weights=True).out
        assert torch.allclose(attended.out, explicit, atol=1e-12)
        assert not attended.out[:, :, k.shape[2] + 2 :].any()
