"""The kernels of linear layers equal torch's operations, values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.audits.forward.float64 import force_float64
from regard.nn.linear import Linear
from regard.ops import linear
from regard.ops.cpu import library

KERNEL_NODE = "_LinearBackward"


@pytest.fixture
def by_shape():
    """The fewest rows; a test with it has the rule that says where a kernel is faster."""
    return linear.MIN_ROWS[library.LIBRARY.name]


CHOSEN = {  # rows, inputs, outputs: is the kernel of linear layers chosen?
    (512, 512, 512): True,
    (512, 64, 64): True,
    (1024, 48, 48): True,
    (511, 64, 64): False,
    (8192, 32, 32): False,
    (8192, 32, 512): False,
}


@pytest.mark.parametrize("shape", CHOSEN)
def test_linear_kernels_are_chosen_by_shape(shape, by_shape):
    rows, inputs, outputs = shape
    layer = Linear(inputs, outputs)
    assert (autograd_node(layer(torch.zeros(rows, inputs))) == KERNEL_NODE) == CHOSEN[shape]


def test_kernels_need_rows(by_shape):
    layer = Linear(512, 512)
    assert autograd_node(layer(torch.zeros(by_shape, 512))) == KERNEL_NODE
    assert autograd_node(layer(torch.zeros(by_shape - 1, 512))) != KERNEL_NODE


def autograd_node(y):
    return type(y.grad_fn).__name__


def node_and_results(module, x, upstream):
    """The output's autograd node; the output and the gradients of x and trained parameters."""
    x = x.detach().requires_grad_()
    y = module(x)
    leaves = [x, *(p for p in module.parameters() if p.requires_grad)]
    return autograd_node(y), [y.detach(), *torch.autograd.grad(y, leaves, upstream)]


def reference(module, x, upstream):
    return node_and_results(module.double(), x.double(), upstream.double())[1]


def check_equal(module, x, upstream):
    node, results = node_and_results(module, x, upstream)
    assert node == KERNEL_NODE
    for actual, expected in zip(results, reference(module, x, upstream), strict=True):
        assert (actual - expected).abs().max() <= 1e-5 * max(expected.abs().max(), 1e-2)


@settings(max_examples=20, deadline=None)
@given(
    shape=st.sampled_from([(128,), (191,), (192,), (511,), (513,), (2, 300), (5, 7, 9)]),
    inputs=st.integers(1, 8),
    outputs=st.integers(1, 8),
    biases=st.booleans(),
    transposed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_linear_equals_torch(shape, inputs, outputs, biases, transposed, seed):
    torch.manual_seed(seed)
    inputs, outputs = (count * library.LIBRARY.lanes for count in (inputs, outputs))
    x = torch.randn(inputs, *shape).movedim(0, -1) if transposed else torch.randn(*shape, inputs)
    check_equal(Linear(inputs, outputs, bias=biases), x, torch.randn(*shape, outputs))


def test_nan_propagates_to_its_row_alone():
    x = torch.randn(140, 16)
    x[139, 3] = torch.nan
    y = Linear(16, 32)(x)
    assert autograd_node(y) == KERNEL_NODE
    assert y[139].isnan().all()
    assert not y[:139].isnan().any()


@pytest.mark.parametrize("trained", [(), ("bias",), ("weight",)])
def test_frozen_weights_get_no_gradient_but_propagate_it(trained):
    torch.manual_seed(2)
    layer = Linear(32, 16)
    for name, parameter in layer.named_parameters():
        parameter.requires_grad_(name in trained)
    check_equal(layer, torch.randn(150, 32), torch.randn(150, 16))


def test_inputs_without_requires_grad():
    layer = Linear(32, 64)
    layer(torch.randn(130, 32)).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.parametrize("rows", [128, 700])
def test_bits_are_independent_of_the_thread_count(rows):
    torch.manual_seed(3)
    x, threads, results = torch.randn(rows, 48), torch.get_num_threads(), []
    layer = Linear(48, 48)
    try:
        for count in (1, 2, 3, 40):
            torch.set_num_threads(count)
            results.append(node_and_results(layer, x, x)[1])
    finally:
        torch.set_num_threads(threads)
    assert all(
        torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True)
    )


def test_bits_of_a_row_are_independent_of_its_index():
    """The last tile of a block overlaps its predecessor: both compute the same bits."""
    layer, x = Linear(48, 96), torch.randn(200, 48)
    with torch.inference_mode():
        assert torch.equal(layer(x)[60:197], layer(x[60:197]))


@pytest.mark.parametrize(
    ("x", "layer"),
    [
        (torch.randn(127, 16), Linear(16, 16)),
        (torch.randn(200, 12), Linear(12, 16)),
        (torch.randn(200, 16), Linear(16, 12)),
        (torch.randn(200, 16).double(), Linear(16, 16).double()),
        (torch.randn(0, 16), Linear(16, 16)),
    ],
)
def test_unsupported_shapes_and_dtypes_are_left_to_torch(x, layer):
    assert autograd_node(layer(x)) == "AddmmBackward0"


@pytest.mark.usefixtures("bf16_matmul")
def test_autocast_is_left_to_torch():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert Linear(16, 16)(torch.randn(200, 16)).dtype is torch.bfloat16


def test_mismatched_width_is_refused_by_torch():
    with pytest.raises(RuntimeError):
        Linear(32, 16)(torch.randn(200, 16))


def test_bias_that_needs_broadcasting_is_left_to_torch():
    layer = Linear(32, 16)
    layer.bias = nn.Parameter(torch.ones(1))
    assert autograd_node(layer(torch.randn(200, 32))) == "AddmmBackward0"


def test_zero_width_is_left_to_torch():
    assert not linear.supports(torch.zeros(3, 0), torch.zeros(32, 0), None)


def test_weights_replaced_after_forward_are_refused():
    layer = Linear(32, 32)
    y = layer(torch.randn(200, 32))
    layer.half()
    with pytest.raises(RuntimeError, match="since the forward pass"):
        y.sum().backward()


def test_float64_mode_sees_torchs_operations():
    layer, x = Linear(32, 16), torch.randn(200, 32)
    with force_float64():
        assert torch.allclose(layer(x), layer.double()(x.double()).double(), atol=1e-12)


@pytest.mark.parametrize("bad", [torch.inf, -torch.inf, torch.nan])
def test_no_number_comes_out_where_none_went_in(bad):
    """Finite values of such a row would hide that a training diverged."""
    layer, x = Linear(32, 64), torch.randn(600, 32)
    expected = layer(x).detach()
    x[5, 3] = bad
    y = layer(x)
    assert autograd_node(y) == KERNEL_NODE
    assert not y[5].isfinite().any()
    assert torch.equal(y[:5], expected[:5])
    assert torch.equal(y[6:], expected[6:])
