"""The attention kernels equal the explicit path: outputs, gradients, dropout."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.attend import attend
from regard.attention.function import HeadShape
from regard.attention.kinds.additive import AdditiveScore
from regard.attention.kinds.dot import DotProduct
from regard.attention.masks import mask as masks
from regard.ops.cpu import library
from regard.training.device import choose_machine

FUNCTIONS = ("dot", "additive")


def build_function(name, *, heads, width):
    if name == "dot":
        return DotProduct()
    function = AdditiveScore(
        HeadShape(width=width, heads=heads, context=64), hidden=library.LIBRARY.lanes
    )
    torch.manual_seed(1)
    for parameter in function.parameters():  # as a model draws them
        torch.nn.init.normal_(parameter, std=function.init_std)
    return function


def random_inputs(b, h, i, j, d, *, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    lengths = (i, j, j, i)
    # Strided as projections make them: positions of one head are not adjacent in memory.
    q, k, v, d_out = (torch.randn(b, n, h, d, generator=generator).transpose(1, 2) for n in lengths)
    return [scale * q, k, v], d_out


def path_and_results(function, qkv, d_out, mask, *, dropout=0.0, explicit=False):
    """The path taken; its output and all gradients. The explicit path runs in float64."""
    if explicit:
        function, d_out = copy.deepcopy(function).double(), d_out.double()
        qkv = [x.double() for x in qkv]
    qkv = [x.detach().requires_grad_() for x in qkv]
    torch.manual_seed(3)
    output = attend(*qkv, mask, function, dropout=dropout, need_weights=explicit)
    parameters = list(function.parameters())
    return output.path, [
        output.out.detach(),
        *torch.autograd.grad(output.out, [*qkv, *parameters], d_out),
    ]


def check_equal(function, qkv, d_out, mask, *, dropout=0.0):
    path, results = path_and_results(function, qkv, d_out, mask, dropout=dropout)
    _, expected = path_and_results(function, qkv, d_out, mask, dropout=dropout, explicit=True)
    assert path == "kernel"
    # A query that sees one key has gradient 0, the difference of terms as large as the others.
    largest = max(tensor.abs().max() for tensor in expected)
    for actual, exact in zip(results, expected, strict=True):
        assert (actual - exact).abs().max() <= 1e-5 * max(exact.abs().max(), 0.1 * largest)


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=15, deadline=None)
@given(
    b=st.integers(1, 3),
    h=st.integers(1, 3),
    i=st.integers(8, 150),
    j=st.integers(1, 150),
    vectors=st.integers(1, 5),
    causal=st.booleans(),
    dropout=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 99),
)
def test_kernel_equals_explicit_path(name, b, h, i, j, vectors, causal, dropout, seed):
    d = vectors * library.LIBRARY.lanes
    qkv, d_out = random_inputs(b, h, i, i if causal else j, d, seed=seed)
    mask = masks.causal() if causal else masks.bidirectional()
    check_equal(build_function(name, heads=h, width=d), qkv, d_out, mask, dropout=dropout)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("causal", [True, False])
def test_long_sequences_keep_their_precision(name, causal):
    qkv, d_out = random_inputs(1, 1, 1500, 1500, 16)
    mask = masks.causal() if causal else masks.bidirectional()
    check_equal(build_function(name, heads=1, width=16), qkv, d_out, mask)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_overflowing_scores_fall_back_to_query_blocks(dropout):
    qkv, d_out = random_inputs(2, 2, 40, 40, 16, scale=60.0)
    inputs = (DotProduct(), qkv, d_out, masks.causal())
    path, results = path_and_results(*inputs, dropout=dropout)
    _, expected = path_and_results(*inputs, dropout=dropout, explicit=True)
    assert path == "query-blocks"
    for actual, exact in zip(results, expected, strict=True):
        assert (actual - exact).abs().max() <= 1e-4 * exact.abs().max()


def test_nan_propagates_to_the_queries_that_see_it():
    qkv, _ = random_inputs(1, 2, 20, 20, 16)
    qkv[1][0, 1, 4, 2] = torch.nan
    out = attend(*qkv, masks.causal()).out
    assert out[0, 1, 4:].isnan().any(dim=-1).all()
    assert not out[0, 0].isnan().any()


def test_expanded_upstream_gradient():
    """The gradient of a sum is one value expanded with strides 0."""
    qkv, _ = random_inputs(2, 2, 12, 12, 16)
    qkv = [x.requires_grad_() for x in qkv]
    expanded = torch.autograd.grad(attend(*qkv, masks.causal()).out.sum(), qkv)
    contiguous = torch.autograd.grad(
        attend(*qkv, masks.causal()).out, qkv, torch.ones(2, 2, 12, 16)
    )
    assert all(torch.equal(a, b) for a, b in zip(expanded, contiguous, strict=True))


def test_bits_are_independent_of_the_thread_count():
    qkv, d_out, threads = *random_inputs(3, 2, 70, 70, 16), torch.get_num_threads()
    function, results = build_function("additive", heads=2, width=16), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(path_and_results(function, qkv, d_out, masks.causal(), dropout=0.1)[1])
    finally:
        torch.set_num_threads(threads)
    # Outputs alone: gradients pass through the projections, which are torch's.
    assert all(torch.equal(other[0], results[0][0]) for other in results[1:])


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"mask": masks.causal() & masks.sliding_window(4)}, "fused-dense"),
        ({"i": 4, "mask": masks.bidirectional()}, "fused-everything"),
        ({"d": 12}, "fused-causal"),
    ],
)
def test_unsupported_cases_are_left_to_torch(change, path):
    case = {"i": 20, "d": 16, "mask": masks.causal(), **change}
    qkv, _ = random_inputs(1, 2, case["i"], 20, case["d"])
    assert attend(*qkv, case["mask"]).path == path


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((2, 2, 20, 16), (1, 2, 20, 16), (1, 2, 20, 16)),
        ((2, 2, 20, 16), (2, 1, 20, 16), (2, 1, 20, 16)),
        ((2, 2, 20, 16), (2, 2, 20, 16), (2, 1, 20, 16)),
        ((0, 2, 20, 16), (0, 2, 20, 16), (0, 2, 20, 16)),
        ((2, 2, 20, 16), (2, 2, 20, 16), (2, 2, 20, 12)),
    ],
)
def test_shapes_that_need_broadcasting_are_left_to_torch(name, q, k, v):
    qkv = [torch.randn(shape) for shape in (q, k, v)]
    output = attend(*qkv, masks.causal(), build_function(name, heads=2, width=16))
    assert output.path != "kernel"
    assert output.out.shape == (*q[:3], v[-1])


def test_math_backend_disables_the_kernel():
    qkv, _ = random_inputs(1, 2, 20, 20, 16)
    with sdpa_kernel(SDPBackend.MATH):
        assert attend(*qkv, masks.causal()).path == "fused-causal"


def test_machine_names_the_kernel_library(kernel_library):
    machine = choose_machine("cpu", threads=torch.get_num_threads())
    assert machine.products == f"regard, {kernel_library.name}"
