"""Linear attention: sums, chunks and recurrent states equal the explicit n² path."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.cache import KVCache, RecurrentState
from regard.attention.feature_maps import (
    EluPlusOne,
    RandomFeatures,
    Relu,
    draw_orthogonal_directions,
)
from regard.attention.function import HeadShape, RecurrentAttentionFunction
from regard.attention.kinds.dot import DotProduct
from regard.attention.kinds.linear import CHUNK, LinearAttention
from regard.attention.masks import mask as masks
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError

MAPS = ("elu", "relu", "random")


def build_function(
    feature_map: str, *, width: int, heads: int = 1, layer: int = 0
) -> RecurrentAttentionFunction:
    kind = LinearAttention(feature_map=feature_map)
    return kind.build(HeadShape(width, heads, layer=layer))


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal, but away from 0: there relu's gradient is ill-conditioned on either path."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*shape, generator=generator, dtype=dtype)
    return (x + 0.1 * x.sign()).requires_grad_()


def example_masks(batch: int, keys: int, seed: int) -> dict[str, masks.Mask]:
    generator = torch.Generator().manual_seed(seed)
    valid = torch.rand(batch, keys, generator=generator) > 0.4  # some rows may be fully masked
    return {
        "causal": masks.causal(),
        "bidirectional": masks.bidirectional(),
        "padding": masks.padding(valid),
        "causal & padding": masks.causal() & masks.padding(valid),
        "cross": masks.cross(valid[:1]),
    }


def relative_difference(a: Tensor, b: Tensor) -> float:
    """The largest difference, relative to the largest value of b or to 1."""
    a, b = a.detach(), b.detach()
    return float((a - b).abs().max()) / max(1.0, float(b.abs().max()))


@given(
    seed=st.integers(0, 10_000),
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    length=st.integers(1, 9) | st.sampled_from([CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3]),
    width=st.integers(1, 8),
    feature_map=st.sampled_from(MAPS),
    name=st.sampled_from(list(example_masks(1, 1, 0))),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_fast_paths_equal_explicit(seed, batch, heads, length, width, feature_map, name, dtype):
    mask = example_masks(batch, length, seed)[name]
    function = build_function(feature_map, width=width, heads=heads).to(dtype)
    q, k, v = (draw(seed + n, batch, heads, length, width, dtype=dtype) for n in range(3))
    results = []
    for need_weights in (False, True):
        attended = attend(q, k, v, mask, function, need_weights=need_weights)
        loss = (attended.out * torch.arange(1, width + 1, dtype=dtype)).sum() / width
        results.append((attended.out, *torch.autograd.grad(loss, (q, k, v))))
        assert attended.path.startswith("explicit" if need_weights else "linear-")
    bound = 1e-5 if dtype == torch.float32 else 1e-12
    # relu's denominator can be arbitrarily small, and gradients are divided by it: in float32 the
    # rounding of either path then shows where exact gradients cancel.
    compared = 1 if feature_map == "relu" and dtype == torch.float32 else 4
    for fast, explicit in list(zip(*results, strict=True))[:compared]:
        assert relative_difference(fast, explicit) <= bound


@pytest.mark.parametrize("feature_map", MAPS)
def test_fewer_queries_than_keys(feature_map):
    function = build_function(feature_map, width=4).double()
    q, k, v = draw(0, 2, 1, 3, 4), draw(1, 2, 1, 7, 4), draw(2, 2, 1, 7, 4)
    mask = masks.cross(torch.rand(2, 7) > 0.5)
    fast = attend(q, k, v, mask, function)
    assert fast.path == "linear-everything"
    explicit = attend(q, k, v, mask, function, need_weights=True)
    assert relative_difference(fast.out, explicit.out) <= 1e-12


def test_a_mask_without_a_pattern_takes_the_explicit_path():
    function = build_function("elu", width=4).double()
    q, k, v = (draw(n, 1, 1, 6, 4) for n in range(3))
    assert attend(q, k, v, masks.sliding_window(3), function).path == "explicit"
    # With cached keys before the queries, chunks would be aligned at the wrong corner.
    assert attend(q[:, :, 4:], k, v, masks.causal(), function, first_query=4).path == "explicit"


@pytest.mark.parametrize("feature_map", MAPS)
@pytest.mark.parametrize("need_weights", [False, True])
def test_a_fully_masked_row_is_zeros_and_has_no_gradient(feature_map, need_weights):
    function = build_function(feature_map, width=4).double()
    q, k, v = (draw(n, 2, 1, 5, 4) for n in range(3))
    valid = torch.tensor([[False] * 5, [False, True, True, False, True]])
    mask = masks.causal() & masks.padding(valid)
    out = attend(q, k, v, mask, function, need_weights=need_weights).out
    assert torch.equal(out[0], torch.zeros(1, 5, 4, dtype=torch.float64))
    assert torch.equal(out[1, :, 0], torch.zeros(1, 4, dtype=torch.float64))
    for gradient in torch.autograd.grad(out.square().sum(), (q, k, v)):
        assert torch.isfinite(gradient).all()
        assert torch.equal(gradient[0], torch.zeros(1, 5, 4, dtype=torch.float64))


@pytest.mark.parametrize("mask", [masks.causal(), masks.bidirectional()])
def test_relu_queries_without_positive_features_get_zeros(mask):
    function = build_function("relu", width=3).double()
    q, k, v = -draw(0, 1, 1, 4, 3).abs(), draw(1, 1, 1, 4, 3), draw(2, 1, 1, 4, 3)
    for need_weights in (False, True):
        out = attend(q, k, v, mask, function, need_weights=need_weights).out
        assert torch.equal(out, torch.zeros_like(out))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    feature_map=st.sampled_from(MAPS),
    pieces=st.lists(st.integers(1, 7) | st.just(CHUNK + 5), min_size=1, max_size=5),
    left_padding=st.integers(0, 4),
)
def test_recurrent_decoding_in_pieces_equals_one_pass(seed, feature_map, pieces, left_padding):
    length = sum(pieces)
    function = build_function(feature_map, width=4, heads=2).double()
    q, k, v = (draw(seed + n, 2, 2, length, 4).detach() for n in range(3))
    valid = torch.ones(2, length, dtype=torch.bool)
    valid[0, :left_padding] = False
    mask = masks.causal() & masks.padding(valid)
    expected = attend(q, k, v, mask, function, need_weights=True).out
    state, outs, begin = RecurrentState(), [], 0
    for piece in pieces:
        end = begin + piece
        # While decoding, the mask covers the row so far.
        mask = masks.causal() & masks.padding(valid[:, :end])
        new = (x[:, :, begin:end] for x in (q, k, v))
        outs.append(function.advance(*new, mask=mask, state=state))
        begin = end
    assert state.length == length
    assert relative_difference(torch.cat(outs, dim=2), expected) <= 1e-12
    assert [tuple(tensor.shape[:2]) for tensor in state.state] == [(2, 2)]


def test_the_state_is_reordered_and_does_not_grow():
    function = build_function("elu", width=4)
    state = RecurrentState()
    sizes = []
    for n in range(3):
        q, k, v = (draw(3 * n + m, 2, 1, 2, 4, dtype=torch.float32).detach() for m in range(3))
        function.advance(q, k, v, mask=masks.causal(), state=state)
        sizes.append(state.state[0].numel())
    assert len(set(sizes)) == 1
    before = state.state[0].clone()
    state.reorder(torch.tensor([1, 1]))
    assert torch.equal(state.state[0], before[[1, 1]])


def test_a_recurrent_state_needs_a_causal_mask():
    function = build_function("elu", width=4)
    x = torch.randn(1, 1, 2, 4)
    with pytest.raises(UserError, match="bidirectional"):
        function.advance(x, x, x, mask=masks.bidirectional(), state=RecurrentState())


@pytest.mark.parametrize("feature_map", MAPS)
@pytest.mark.parametrize("now", [3, CHUNK - 1, CHUNK + 7])
def test_the_future_has_no_influence_to_the_bit(feature_map, now):
    function = build_function(feature_map, width=4)
    q, k, v = (draw(n, 1, 2, 2 * CHUNK, 4, dtype=torch.float32) for n in range(3))
    before = attend(q, k, v, masks.causal(), function).out[:, :, : now + 1]
    for gradient in torch.autograd.grad(before.sum(), (k, v)):
        assert torch.equal(gradient[:, :, now + 1 :], torch.zeros_like(gradient[:, :, now + 1 :]))
    with torch.no_grad():
        for x in (q, k, v):
            x[:, :, now + 1 :] *= 30.0
        after = attend(q, k, v, masks.causal(), function).out[:, :, : now + 1]
    assert torch.equal(after, before)


def test_left_padding_changes_nothing():
    mixer = build_mixer(LinearAttention(), HeadShape(width=4, heads=2)).double()
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    alone = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(5)).out
    padded = torch.cat([torch.randn(1, 3, 8, dtype=torch.float64), x], dim=1)
    valid = torch.tensor([[False] * 3 + [True] * 5])
    mask = masks.causal() & masks.padding(valid)
    out = mixer(padded, mask=mask, positions=TokenPositions.of_padded(valid)).out
    assert torch.allclose(out[:, 3:], alone, atol=1e-12)


@pytest.mark.parametrize("key_value_heads", [4, 2, 1])
def test_mixer_cached_decoding_equals_one_pass(key_value_heads):
    mixer = build_mixer(
        LinearAttention(feature_map="random"),
        HeadShape(width=3, heads=4),
        key_value_heads=key_value_heads,
    ).double()
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    expected = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(6)).out
    cache = mixer.new_cache(6)
    steps = [
        mixer(
            x[:, n : n + 1],
            mask=masks.causal(),
            positions=TokenPositions.of_row(n + 1),
            cache=cache,
        )
        for n in range(6)
    ]
    assert {step.path for step in steps} == {"recurrent"}
    assert torch.allclose(torch.cat([step.out for step in steps], dim=1), expected, atol=1e-12)


def test_cross_attention_projects_the_memory_once():
    mixer = build_mixer(LinearAttention(), HeadShape(width=4, heads=2)).double()
    x, memory = (torch.randn(2, n, 8, dtype=torch.float64) for n in (3, 5))
    mask = masks.cross(torch.tensor([[True] * 5, [True, True, False, True, False]]))
    expected = mixer(x, mask=mask, positions=TokenPositions.of_row(3), memory=memory).out
    cache = mixer.new_cross_cache(5)
    assert isinstance(cache, KVCache)
    for n in range(3):
        # After the first step keys and values come from the cache.
        step = mixer(
            x[:, n : n + 1],
            mask=mask,
            positions=TokenPositions.of_row(n + 1),
            memory=memory if n == 0 else memory[:, :0],
            cache=cache,
        )
        assert torch.allclose(step.out, expected[:, n : n + 1], atol=1e-12)
    assert cache.length == 5


def test_an_unsupported_mask_is_refused():
    mixer = build_mixer(LinearAttention(), HeadShape(width=4, heads=2))
    with pytest.raises(UserError, match=r"sliding-window\(3\)"):
        mixer(
            torch.randn(1, 4, 8), mask=masks.sliding_window(3), positions=TokenPositions.of_row(4)
        )


def test_elu_plus_one_is_precise_for_negative_inputs():
    x = torch.tensor([-30.0, -12.0, -1.0, 0.0, 2.0], requires_grad=True)
    mapped = EluPlusOne().map_keys(x)
    exact = torch.where(x > 0, x.double() + 1, x.double().exp())
    assert torch.allclose(mapped.double(), exact, rtol=1e-6, atol=0.0)
    (gradient,) = torch.autograd.grad(mapped.sum(), x)
    assert torch.allclose(gradient, x.detach().clamp(max=0).exp())  # 1 at 0 and above


def test_features_are_never_negative():
    x = draw(0, 1, 2, 9, 4)
    for feature_map in (
        EluPlusOne(),
        Relu(),
        build_function("random", width=4).double().feature_map,
    ):
        for mapped in (feature_map.map_queries(x), feature_map.map_keys(x)):
            assert (mapped >= 0).all()
            assert mapped.shape[:3] == x.shape[:3]


def softmax_error(features: int, seed: int) -> float:
    """RMS error of random features against softmax attention, for one draw of inputs and
    features."""
    q, k, v = (0.3 * draw(100 * seed + n, 1, 1, 24, 8).detach() for n in range(3))
    kind = LinearAttention(feature_map="random", features=features, seed=seed)
    function = kind.build(HeadShape(8, 1)).double()
    softmax = attend(q, k, v, masks.causal(), DotProduct()).out
    return float((attend(q, k, v, masks.causal(), function).out - softmax).square().mean().sqrt())


def test_more_random_features_approximate_softmax_better():
    errors = [
        sum(softmax_error(features, seed) for seed in range(12)) / 12
        for features in (8, 32, 128, 512, 2048)
    ]
    # The error falls with the root of the number of features: 4× the features, half the error.
    for few, many in pairwise(errors):
        assert 1.4 < few / many < 2.9


def test_random_features_estimate_the_exponential_kernel():
    width, draws = 4, 4000
    generator = torch.Generator().manual_seed(0)
    q, k = (0.7 * torch.randn(3, width, generator=generator, dtype=torch.float64) for _ in "qk")
    feature_map = RandomFeatures(width, draws * width, generator=generator).double()
    products = feature_map.map_keys(q) @ feature_map.map_keys(k).T
    assert torch.allclose(products, (q @ k.T / width**0.5).exp(), rtol=0.05)


def test_directions_are_orthogonal_in_blocks_with_unit_covariance():
    rows = draw_orthogonal_directions(5, 12, generator=torch.Generator().manual_seed(0))
    assert rows.shape == (12, 5)
    for block in rows.split(5):
        products = block @ block.T
        assert torch.allclose(products, products.diagonal().diag(), atol=1e-12)
    many = draw_orthogonal_directions(5, 20_000, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(many.T @ many / 20_000, torch.eye(5, dtype=torch.float64), atol=0.04)
    assert torch.allclose(many.mean(dim=0), torch.zeros(5, dtype=torch.float64), atol=0.04)


def test_random_features_depend_on_settings_alone():
    def directions(seed: int, layer: int) -> Tensor:
        kind = LinearAttention(feature_map="random", seed=seed)
        function = kind.build(HeadShape(6, 2, layer=layer))
        assert not function.state_dict()
        assert not list(function.parameters())
        return function.feature_map.directions

    state = torch.random.get_rng_state()
    assert torch.equal(directions(0, 1), directions(0, 1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert directions(0, 1).shape == (24, 6)
    assert not torch.equal(directions(0, 1), directions(0, 2))
    assert not torch.equal(directions(0, 1), directions(1, 1))


@pytest.mark.parametrize("width", [8, 300])
def test_random_features_stay_finite_for_large_inputs(width):
    function = build_function("random", width=width)
    direction = function.feature_map.directions[:1] * width**0.25  # where a feature is largest
    for size in (0.01, 1.0, 100.0):
        q = k = (size * direction).expand(1, 1, 6, width).clone().requires_grad_()
        v = draw(2, 1, 1, 6, 3, dtype=torch.float32)
        out = attend(q, k, v, masks.causal(), function).out
        for values in (out, *torch.autograd.grad(out.square().sum(), (q, v))):
            assert torch.isfinite(values).all()


@pytest.mark.parametrize("explicit", [True, False])
def test_a_query_just_above_0_does_not_amplify_rounding(explicit):
    """With one feature per head, weights do not depend on a positive query: its gradient is 0, not
    rounding divided by the query."""
    q = torch.full((1, 1, 5, 1), 1e-6).requires_grad_()
    k, v = draw(1, 1, 1, 5, 1).float().abs(), draw(2, 1, 1, 5, 1).float()
    function = build_function("relu", width=1)
    attended = attend(q, k, v, masks.bidirectional(), function, need_weights=explicit)
    [gradient] = torch.autograd.grad(attended.out.sum(), q)
    assert float(gradient.abs().max()) <= 1e-5
