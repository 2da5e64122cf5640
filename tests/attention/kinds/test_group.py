"""Group attention equals dot-product attention under a group mask, at 1/G of the cost."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds.dot import Dot, DotProduct
from regard.attention.kinds.group import Group, GroupDotProduct
from regard.attention.masks import mask as masks
from regard.attention.multi_head import MultiHeadAttention, build_mixer
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError


def draw(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def random_mixer(kind: Group | Dot, *, context: int, layer: int = 0) -> MultiHeadAttention:
    mixer = build_mixer(kind, HeadShape(width=4, heads=2, context=context, layer=layer)).double()
    assert isinstance(mixer, MultiHeadAttention)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return mixer


@given(
    seed=st.integers(0, 10_000),
    context=st.integers(1, 40),
    fraction=st.floats(0.0, 1.0),
    missing=st.integers(0, 12),
    outer=st.sampled_from([masks.causal(), masks.bidirectional(), masks.sliding_window(4)]),
)
def test_groups_by_count_equal_dot_under_a_group_mask(seed, context, fraction, missing, outer):
    groups = 1 + int(fraction * (context - 1))
    length = max(1, context - missing)
    function = Group(groups=groups).build(HeadShape(width=4, heads=2, context=context))
    q, k, v = (draw(seed + n, 2, 2, length, 4) for n in range(3))
    size = -(-context // groups)
    expected = attend(
        q, k, v, outer & masks.same_group(torch.arange(length)[None] // size), need_weights=True
    )
    got = attend(q, k, v, function.restrict_mask(outer, TokenPositions.of_row(length)), function)
    assert torch.allclose(got.out, expected.out, atol=1e-12)
    out_gradient = torch.arange(1.0, 5.0, dtype=torch.float64)
    gradients = [
        torch.autograd.grad((out * out_gradient).sum(), (q, k, v))
        for out in (got.out, expected.out)
    ]
    for fast, explicit in zip(*gradients, strict=True):
        assert torch.allclose(fast, explicit, atol=1e-12)
    if size < length:
        assert got.path.startswith("blocks")


@pytest.mark.parametrize("by", ["segments", "modality"])
def test_groups_by_ids_equal_dot_under_a_group_mask(by):
    ids = torch.tensor([[0, 0, 1, 1, 1, 0], [2, 1, 2, 1, 2, 2]])
    name = {"segments": "segments", "modality": "modalities"}[by]
    positions = TokenPositions.of_row(6, **{name: ids})
    x = draw(0, 2, 6, 8)
    got = random_mixer(Group(by=by), context=6)(x, mask=masks.causal(), positions=positions).out
    group_mask = masks.causal() & masks.same_group(ids)
    expected = random_mixer(Dot(), context=6)(x, mask=group_mask, positions=positions).out
    assert torch.allclose(got, expected, atol=1e-12)
    ungrouped = random_mixer(Dot(), context=6)(x, mask=masks.causal(), positions=positions).out
    assert not torch.allclose(got, ungrouped)


def test_missing_modalities_are_an_error():
    mixer = random_mixer(Group(by="modality"), context=6)
    with pytest.raises(UserError, match=r'model\.attention\.by = "modality" needs modality'):
        mixer(draw(0, 1, 6, 8), mask=masks.causal(), positions=TokenPositions.of_row(6))


def test_a_row_without_segments_is_one_group():
    x, positions = draw(0, 1, 6, 8), TokenPositions.of_row(6)
    group, dot = random_mixer(Group(by="segments"), context=6), random_mixer(Dot(), context=6)
    got = group(x, mask=masks.causal(), positions=positions).out
    expected = dot(x, mask=masks.causal(), positions=positions).out
    assert torch.allclose(got, expected, atol=1e-12)


def test_more_groups_than_positions_are_refused():
    with pytest.raises(UserError, match=r"model\.attention\.groups = 9 .*\(8\)"):
        Group(groups=9).build(HeadShape(width=4, heads=2, context=8))
    Group(groups=8).build(HeadShape(width=4, heads=2, context=8))
    # By ids, the number of groups is not used.
    Group(groups=9, by="segments").build(HeadShape(width=4, heads=2, context=8))


def test_a_context_that_groups_do_not_divide_has_a_shorter_last_group():
    function = Group(groups=3).build(HeadShape(width=4, heads=1, context=10))
    mask = function.restrict_mask(masks.bidirectional(), TokenPositions.of_row(10))
    assert mask.dense(10, 10)[0, 0].sum(dim=1).tolist() == [4, 4, 4, 4, 4, 4, 4, 4, 2, 2]


@pytest.mark.parametrize(
    ("every", "fusing"), [(0, []), (1, [0, 1, 2, 3, 4, 5]), (2, [1, 3, 5]), (3, [2, 5]), (7, [])]
)
def test_every_nth_layer_is_a_fusion_layer(every, fusing):
    kind = Group(groups=2, fusion_every=every)
    layers = [kind.build(HeadShape(width=4, heads=2, context=8, layer=n)) for n in range(6)]
    ungrouped = [n for n, layer in enumerate(layers) if not isinstance(layer, GroupDotProduct)]
    assert ungrouped == fusing
    assert all(isinstance(layer, DotProduct) for layer in layers)


def test_a_fusion_layer_equals_dot():
    x, positions = draw(0, 2, 8, 8), TokenPositions.of_row(8)
    fusion = random_mixer(Group(groups=4, fusion_every=2), context=8, layer=1)
    dot = random_mixer(Dot(), context=8)
    for mask in (masks.causal(), masks.bidirectional()):
        got = fusion(x, mask=mask, positions=positions).out
        assert torch.equal(got, dot(x, mask=mask, positions=positions).out)


@pytest.mark.parametrize("mask", [masks.causal(), masks.bidirectional()])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_does_not_shift_the_groups(mask, side):
    mixer = random_mixer(Group(groups=3), context=10)
    x, pad = draw(0, 1, 7, 8), draw(1, 1, 3, 8)
    alone = mixer(x, mask=mask, positions=TokenPositions.of_row(7)).out
    pieces = [(pad, torch.zeros(1, 3, dtype=torch.bool)), (x, torch.ones(1, 7, dtype=torch.bool))]
    pieces = pieces if side == "left" else pieces[::-1]
    row = torch.cat([piece for piece, _ in pieces], dim=1)
    valid = torch.cat([is_token for _, is_token in pieces], dim=1)
    out = mixer(
        row, mask=mask & masks.padding(valid), positions=TokenPositions.of_padded(valid)
    ).out
    assert torch.allclose(out[valid], alone[0], atol=1e-12)


def test_rows_with_different_padding_keep_their_groups():
    mixer = random_mixer(Group(groups=3), context=9)
    valid = torch.tensor([[True] * 6, [False] * 2 + [True] * 4])
    x = draw(0, 2, 6, 8)
    mask = masks.causal() & masks.padding(valid)
    out = mixer(x, mask=mask, positions=TokenPositions.of_padded(valid)).out
    for row, begin in ((0, 0), (1, 2)):
        alone = x[row : row + 1, begin:]
        expected = mixer(alone, mask=masks.causal(), positions=TokenPositions.of_row(6 - begin)).out
        assert torch.allclose(out[row, begin:], expected[0], atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(pieces=st.lists(st.integers(1, 5), min_size=1, max_size=5), padding=st.integers(0, 3))
def test_cached_decoding_in_pieces_equals_one_pass(pieces, padding):
    length = sum(pieces)
    mixer = random_mixer(Group(groups=4), context=25)
    x = draw(length, 2, length, 8)
    valid = torch.ones(2, length, dtype=torch.bool)
    valid[1, : min(padding, length - 1)] = False

    def forward(begin: int, end: int, **kwargs: object) -> Tensor:
        mask = masks.causal() & masks.padding(valid[:, :end])
        positions = TokenPositions.of_padded(valid[:, :end])
        return mixer(x[:, begin:end], mask=mask, positions=positions, **kwargs).out

    cache, outs, begin = mixer.new_cache(25), [], 0
    with torch.no_grad():
        for piece in pieces:
            outs.append(forward(begin, begin + piece, cache=cache))
            begin += piece
        assert torch.allclose(torch.cat(outs, dim=1), forward(0, length), atol=1e-12)


def test_other_groups_have_no_influence():
    mixer = random_mixer(Group(groups=3), context=9)
    x, positions = draw(0, 1, 9, 8), TokenPositions.of_row(9)
    out = mixer(x, mask=masks.bidirectional(), positions=positions).out
    (gradient,) = torch.autograd.grad(out[:, 4].sum(), x)
    has_influence = (gradient[0] != 0).any(dim=-1)
    assert has_influence.tolist() == [False] * 3 + [True] * 3 + [False] * 3


class Explicit(GroupDotProduct):
    """Without torch's fused kernel, whose FLOPs the counter does not see on a CPU."""

    fast = AttentionFunction.fast


@pytest.mark.parametrize("mask", [masks.causal(), masks.bidirectional()])
def test_flops_are_divided_by_the_number_of_groups(mask):
    length, flops = 64, {}
    q, k, v = (torch.randn(2, 2, length, 4) for _ in range(3))
    for groups in (1, 2, 4, 8, 16):
        built = Group(groups=groups).build(HeadShape(width=4, heads=2, context=length))
        assert isinstance(built, GroupDotProduct)
        function = Explicit(built.group_mask)
        with FlopCounterMode(display=False) as counter:
            attend(q, k, v, function.restrict_mask(mask, TokenPositions.of_row(length)), function)
        flops[groups] = counter.get_total_flops()
    # Scores and mix: 2 FLOPs per pair of positions, head and dimension.
    assert flops[1] == 2 * 2 * (2 * 2 * length * length * 4)
    assert flops == {groups: flops[1] // groups for groups in flops}
