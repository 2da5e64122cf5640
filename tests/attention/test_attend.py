"""Every path of `attend` equals the explicit one, in values and gradients, fp32 and fp64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds import ATTENTION
from regard.attention.kinds.additive import Additive
from regard.attention.kinds.dot import Dot
from regard.attention.masks import mask as masks
from regard.attention.multi_head import build_mixer
from regard.attention.paths import dot_blocks
from regard.attention.paths.query_blocks import BlockSize
from regard.attention.token_positions import TokenPositions
from regard.ops.cpu import library

DOT_BY_KERNEL = library.LIBRARY is not None and library.REPLACES_MATMUL
"Else torch's fused attention is taken: no C compiler, or a CPU that it is tuned for."


def draw(seed: int, *shape: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


def example_masks(batch: int, queries: int, keys: int, seed: int) -> dict[str, masks.Mask]:
    generator = torch.Generator().manual_seed(seed)
    valid = torch.rand(batch, keys, generator=generator) > 0.4  # some rows may be fully masked
    groups = torch.randint(0, 2, (batch, max(queries, keys)), generator=generator)
    return {
        "causal": masks.causal(),
        "bidirectional": masks.bidirectional(),
        "padding": masks.padding(valid),
        "causal & padding": masks.causal() & masks.padding(valid),
        "window & groups": masks.sliding_window(3) & masks.same_group(groups),
        "nothing": ~masks.bidirectional(),
    }


@given(
    seed=st.integers(0, 10_000),
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    length=st.integers(1, 9),
    width=st.integers(1, 8),
    name=st.sampled_from(list(example_masks(1, 1, 1, 0))),
    dropout=st.sampled_from([0.0, 0.4]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_fast_paths_equal_explicit(seed, batch, heads, length, width, name, dropout, dtype):
    mask = example_masks(batch, length, length, seed)[name]
    results = {}
    for need_weights in (False, True):
        q, k, v = (draw(seed + n, batch, heads, length, width, dtype=dtype) for n in range(3))
        torch.manual_seed(seed)  # both paths drop the same weights
        attended = attend(q, k, v, mask, dropout=dropout, need_weights=need_weights)
        (attended.out * torch.arange(1, width + 1, dtype=dtype)).sum().backward()
        results[need_weights] = (attended.out.detach(), q.grad, k.grad, v.grad)
        assert (attended.path == "explicit") == need_weights
    bound = 1e-5 if dtype == torch.float32 else 1e-12
    for fast, explicit in zip(results[False], results[True], strict=True):
        scale = max(1.0, float(explicit.abs().max()))
        assert float((fast - explicit).abs().max()) / scale <= bound


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_fully_masked_row_is_zeros_and_has_no_gradient(need_weights):
    q, k, v = (draw(n, 1, 1, 3, 4, dtype=torch.float32) for n in range(3))
    mask = masks.Mask(lambda b, h, i, j: (i > 0) & (j <= i), "first row masked")
    out = attend(q, k, v, mask, need_weights=need_weights).out
    assert torch.equal(out[0, 0, 0], torch.zeros(4))
    out.sum().backward()
    assert torch.equal(q.grad[0, 0, 0], torch.zeros(4))
    for tensor in (q, k, v):
        assert torch.isfinite(tensor.grad).all()


@pytest.mark.parametrize("bias_rows", [1, 2])
@pytest.mark.parametrize("values", [1, 40, 10**6])
def test_blocks_with_dropout_bias_and_cached_keys_equal_explicit(values, bias_rows, monkeypatch):
    monkeypatch.setattr(dot_blocks, "SIZE", BlockSize(values, queries=3))
    results = []
    for need_weights in (False, True):
        q = draw(1, 2, 3, 5, 4, dtype=torch.float64)
        k, v = (draw(n, 2, 3, 9, 4, dtype=torch.float64) for n in (2, 3))
        bias = draw(4, bias_rows, 3, 5, 9, dtype=torch.float64)
        torch.manual_seed(0)
        out = attend(
            q, k, v, masks.causal(),
            bias=bias, first_query=4, dropout=0.3, need_weights=need_weights,
        ).out  # fmt: skip
        (out * torch.arange(1, 5)).sum().backward()
        results.append([out.detach(), q.grad, k.grad, v.grad, bias.grad])
    for fast, explicit in zip(*results, strict=True):
        assert torch.allclose(fast, explicit, atol=1e-12)


# Queries scaled by 30 or 300: sums of exp(score) overflow.
@pytest.mark.parametrize(
    ("dtype", "scale", "tolerance"),
    [
        (torch.float32, 1, 1e-5),
        (torch.float32, 30, 1e-4),
        (torch.float64, 1, 1e-12),
        (torch.float64, 300, 1e-12),
    ],
)
def test_blocks_without_dropout_equal_explicit(dtype, scale, tolerance, monkeypatch):
    monkeypatch.setattr(library, "LIBRARY", None)
    results = []
    for need_weights in (False, True):
        q, k, v = (draw(n, 2, 10, 330, 8, dtype=dtype) for n in (1, 2, 3))
        attended = attend(scale * q, k, v, masks.causal(), need_weights=need_weights)
        assert attended.path == ("explicit" if need_weights else "query-blocks")
        (attended.out * torch.arange(1, 9)).sum().backward()
        results.append([attended.out.detach(), q.grad, k.grad, v.grad])
    for fast, explicit in zip(*results, strict=True):
        assert torch.allclose(fast, explicit, rtol=0, atol=tolerance * explicit.abs().max())


def in_inference_mode(function, shape):
    with torch.inference_mode():
        q, k, v = (draw(n, *shape, dtype=torch.float32) for n in range(3))
        attend(q, k, v, masks.causal(), function)


def of_fake_tensors(function, shape):
    with FakeTensorMode(allow_non_fake_inputs=True):
        q, k, v = (torch.empty(shape) for _ in range(3))
        attend(q, k, v, masks.causal(), function, dropout=0.1)


@pytest.mark.parametrize(
    ("kind", "before", "length"),
    [  # each length once: nothing that an earlier case has left is used
        (Dot(), in_inference_mode, 57),
        (Dot(), of_fake_tensors, 58),
        (Additive(), in_inference_mode, 59),
        (Additive(), of_fake_tensors, 60),
    ],
)
def test_a_call_leaves_nothing_to_the_next(kind, before, length):
    """Zeros came out after the memory of a step had been counted: a mask's block was kept."""
    function = kind.build(HeadShape(width=16, heads=2))
    shape = (2, 2, length, 16)
    with library.without_kernels():
        before(function, shape)
        results = []
        for need_weights in (False, True):
            q, k, v = (draw(n, *shape, dtype=torch.float32) for n in range(3))
            torch.manual_seed(0)
            output = attend(
                q, k, v, masks.causal(), function, dropout=0.1, need_weights=need_weights
            )
            output.out.sum().backward()
            results.append([output.out.detach(), q.grad, k.grad, v.grad])
    for fast, explicit in zip(*results, strict=True):
        assert torch.allclose(fast, explicit, atol=1e-5)


def test_blocks_pass_gradcheck_with_a_bias_and_masked_rows(monkeypatch):
    monkeypatch.setattr(dot_blocks, "SIZE", BlockSize(values=40, queries=2))
    q, k, v = (draw(n, 2, 2, 5, 3, dtype=torch.float64) for n in (1, 2, 3))
    bias = draw(4, 1, 2, 5, 5, dtype=torch.float64)
    mask = masks.Mask(lambda b, h, i, j: (j <= i) & ((i != 2) | (b != 1)), "third row masked")

    def out(q, k, v, bias, dropout):
        torch.manual_seed(0)
        return attend(q, k, v, mask, bias=bias, dropout=dropout).out

    assert torch.autograd.gradcheck(lambda *inputs: out(*inputs, 0.4), (q, k, v, bias))


def test_the_output_names_the_path():
    q = k = v = torch.randn(1, 1, 4, 2)
    valid = torch.tensor([[True, True, True, False]])
    assert attend(q, k, v, masks.causal()).path == "fused-causal"
    assert attend(q, k, v).path == "fused-everything"
    assert attend(q, k, v, masks.causal(), dropout=0.1).path == "query-blocks"
    assert attend(q, k, v, masks.padding(valid)).path == "fused-dense"
    assert attend(q, k, v, masks.causal(), need_weights=True).path == "explicit"
    # With cached keys torch's is_causal would align the mask at the wrong corner.
    assert attend(q[:, :, :2], k, v, masks.causal(), first_query=2).path == "fused-dense"
    # A single query at the last position may attend to every key.
    assert attend(q[:, :, :1], k, v, masks.causal(), first_query=3).path == "fused-everything"
    assert attend(q[:, :, :1], k, v, masks.causal(), first_query=1).path == "fused-dense"


def test_weights_are_a_distribution_over_allowed_keys():
    q, k, v = (torch.randn(2, 2, 5, 4) for _ in range(3))
    weights = attend(q, k, v, masks.causal(), need_weights=True).weights
    assert torch.allclose(weights.sum(-1), torch.ones(2, 2, 5))
    assert torch.equal(weights.triu(1), torch.zeros_like(weights))


def test_multi_head_equals_torch():
    torch.manual_seed(0)
    ours = build_mixer(Dot(), HeadShape(width=4, heads=3))
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(
            torch.cat([ours.query.weight, ours.key.weight, ours.value.weight])
        )
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.out.weight)
        theirs.out_proj.bias.copy_(ours.out.bias)
    x = torch.randn(2, 7, 12)
    forbidden = torch.ones(7, 7).triu(1).bool()  # torch's polarity: True = may not
    expected, _ = theirs(x, x, x, attn_mask=forbidden, need_weights=False)
    positions = TokenPositions.of_row(7)
    out = ours(x, mask=masks.causal(), positions=positions).out
    assert torch.allclose(out, expected, atol=1e-6)
    memory = torch.randn(2, 4, 12)
    expected, _ = theirs(x, memory, memory, need_weights=False)
    out = ours(x, mask=masks.bidirectional(), positions=positions, memory=memory).out
    assert torch.allclose(out, expected, atol=1e-6)


ATTENDING = [
    entry.name
    for entry in ATTENTION
    if isinstance(entry.part().build(HeadShape(width=4, heads=2)), AttentionFunction)
]


@pytest.mark.parametrize("kind", ATTENDING)
@pytest.mark.parametrize(("queries", "keys"), [(0, 5), (5, 0), (0, 0), (0, 400), (400, 0)])
def test_no_query_or_no_key(kind, queries, keys):
    """Zeros, as for a query that may attend to nothing; in training too."""
    function = ATTENTION.get(kind).part().build(HeadShape(width=4, heads=2, context=400))
    for mask in masks.causal(), masks.bidirectional(), masks.sliding_window(3):
        for dropout, need_weights in ((0.0, False), (0.3, False), (0.0, True)):
            q, k, v = (draw(0, 1, 2, n, 4, dtype=torch.float32) for n in (queries, keys, keys))
            attended = attend(q, k, v, mask, function, dropout=dropout, need_weights=need_weights)
            assert torch.equal(attended.out, torch.zeros(1, 2, queries, 4))
            if need_weights:
                assert attended.weights.shape == (1, 2, queries, keys)
            attended.out.sum().backward()
            assert not any(x.grad.any() for x in (q, k, v))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradients_of_saturated_scores_vanish(dropout):
    """One key has all weight where scores are 10³ apart: nothing is left to enlarge."""
    q, k, v = (draw(seed, 2, 2, 64, 16, dtype=torch.float32) for seed in range(3))
    with torch.no_grad():
        q *= 300
        k *= 300
    function = Dot().build(HeadShape(width=16, heads=2))
    attended = attend(q, k, v, masks.causal(), function, dropout=dropout)
    if not (DOT_BY_KERNEL or dropout):
        assert attended.path == "fused-causal"
        pytest.skip("torch's fused attention, whose gradients do not vanish exactly")
    assert attended.path == "query-blocks"
    (attended.out * torch.randn(attended.out.shape)).sum().backward()
    assert q.grad.abs().max() < 1e-6
    assert k.grad.abs().max() < 1e-6
