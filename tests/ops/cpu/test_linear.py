"""The kernels of linear layers and MLPs equal torch's operations, values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.audits.forward.float64 import force_float64
from regard.nn import activations
from regard.nn.linear import Linear
from regard.nn.mlp import ACTIVATIONS, MLP
from regard.ops import linear
from regard.ops.cpu import library

KERNEL_NODES = ("_LinearBackward", "_MlpBackward")


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
    assert (autograd_node(layer(torch.zeros(rows, inputs))) in KERNEL_NODES) == CHOSEN[shape]


def test_kernels_need_rows_and_those_of_mlps_no_width(by_shape):
    wide, mlp = Linear(512, 512), MLP(32, hidden=128, activation=activations.GELU, biases=True)
    for module, width in ((wide, 512), (mlp, 32)):
        assert autograd_node(module(torch.zeros(by_shape, width))) in KERNEL_NODES
        assert autograd_node(module(torch.zeros(by_shape - 1, width))) not in KERNEL_NODES


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
    assert node in KERNEL_NODES
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


@settings(max_examples=20, deadline=None)
@given(
    shape=st.sampled_from([(128,), (191,), (192,), (511,), (513,), (2, 300), (5, 7, 9)]),
    width=st.integers(1, 6),
    hidden=st.integers(1, 12),
    activation=st.sampled_from(list(ACTIVATIONS.values())),
    biases=st.booleans(),
    seed=st.integers(0, 99),
)
def test_fused_mlp_equals_its_layers(shape, width, hidden, activation, biases, seed):
    torch.manual_seed(seed)
    width, hidden = (count * library.LIBRARY.lanes for count in (width, hidden))
    mlp = MLP(width, hidden=hidden, activation=activation, biases=biases)
    for parameter in mlp.parameters():
        nn.init.normal_(parameter, std=width**-0.5)
    check_equal(mlp, torch.randn(*shape, width), torch.randn(*shape, width))


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_activations_and_derivatives_equal_torch(activation):
    """Up weights are 0, so z is the hidden bias, a grid; down weights are 1."""
    lanes, hidden = library.LIBRARY.lanes, 2_048
    mlp = MLP(lanes, hidden=hidden, activation=activation, biases=True)
    for parameter in mlp.parameters():
        nn.init.zeros_(parameter)
    nn.init.ones_(mlp.down_proj.weight)
    mlp.up_proj.bias.data.copy_(torch.linspace(-30, 30, hidden))
    z = mlp.up_proj.bias.detach().double().requires_grad_()
    derivatives = torch.autograd.grad(activation.reference(z).sum(), z)[0]
    upstream = torch.zeros(128, lanes)
    upstream[5, 0] = 1.0
    node, results = node_and_results(mlp, torch.randn(128, lanes), upstream)
    assert node in KERNEL_NODES
    names = [name for name, _ in mlp.named_parameters()]
    gradients = dict(zip(names, results[2:], strict=True))
    # The gradient of the down projection is f(z), that of the hidden bias f'(z).
    assert (gradients["down_proj.weight"][0] - activation.reference(z)).abs().max() <= 2e-6
    assert (gradients["up_proj.bias"] - derivatives).abs().max() <= 5e-7


def test_nan_propagates_to_its_row_alone():
    mlp = MLP(16, hidden=32, activation=activations.GELU, biases=True)
    x = torch.randn(140, 16)
    x[139, 3] = torch.nan
    y = mlp(x)
    assert autograd_node(y) in KERNEL_NODES
    assert y[139].isnan().all()
    assert not y[:139].isnan().any()


@pytest.mark.parametrize("trained", ["nothing", "biases", "up_proj", "down_proj"])
def test_frozen_weights_get_no_gradient_but_propagate_it(trained):
    torch.manual_seed(2)
    mlp = MLP(32, hidden=64, activation=activations.GELU_TANH, biases=True)
    for name, parameter in mlp.named_parameters():
        parameter.requires_grad_(name.endswith("bias") if trained == "biases" else trained in name)
    check_equal(mlp, torch.randn(150, 32), torch.randn(150, 32))
    layer = Linear(32, 16).requires_grad_(False)
    check_equal(layer, torch.randn(150, 32), torch.randn(150, 16))


def test_inputs_without_requires_grad():
    mlp = MLP(32, hidden=64, activation=activations.RELU, biases=True)
    mlp(torch.randn(130, 32)).sum().backward()
    assert all(parameter.grad is not None for parameter in mlp.parameters())


@pytest.mark.parametrize("rows", [128, 700])
def test_bits_are_independent_of_the_thread_count(rows):
    torch.manual_seed(3)
    x, threads, results = torch.randn(rows, 48), torch.get_num_threads(), []
    mlp = MLP(48, hidden=96, activation=activations.GELU, biases=True)
    layer = Linear(48, 48)
    try:
        for count in (1, 2, 3, 40):
            torch.set_num_threads(count)
            results.append([*node_and_results(mlp, x, x)[1], *node_and_results(layer, x, x)[1]])
    finally:
        torch.set_num_threads(threads)
    assert all(
        torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True)
    )


def test_bits_of_a_row_are_independent_of_its_index():
    """The last tile of a block overlaps its predecessor: both compute the same bits."""
    mlp = MLP(48, hidden=96, activation=activations.GELU, biases=True)
    x = torch.randn(200, 48)
    with torch.inference_mode():
        assert torch.equal(mlp(x)[60:197], mlp(x[60:197]))


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
    mlp = MLP(32, hidden=64, activation=activations.GELU, biases=True)
    mlp.down_proj.bias = nn.Parameter(torch.ones(1))
    assert autograd_node(mlp(torch.randn(200, 32))) not in KERNEL_NODES


def test_zero_width_is_left_to_torch():
    assert not linear.supports(torch.zeros(3, 0), torch.zeros(32, 0), None)


def test_weights_replaced_after_forward_are_refused():
    mlp = MLP(32, hidden=64, activation=activations.GELU, biases=True)
    for module in (mlp, Linear(32, 32)):
        y = module(torch.randn(200, 32))
        module.half()
        with pytest.raises(RuntimeError, match="since the forward pass"):
            y.sum().backward()


def test_float64_mode_sees_torchs_operations():
    layer, x = Linear(32, 16), torch.randn(200, 32)
    with force_float64():
        assert torch.allclose(layer(x), layer.double()(x.double()).double(), atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_activations_saturate_and_propagate_nan(activation):
    far = torch.tensor([-1e18, -1e13, -1e4, 1e4, 1e13, 1e18, torch.nan])
    mlp = MLP(16, hidden=16, activation=activation, biases=True)
    for parameter in mlp.parameters():
        nn.init.zeros_(parameter)
    nn.init.ones_(mlp.down_proj.weight)
    mlp.up_proj.bias.data[: len(far)] = far
    upstream = torch.zeros(128, 16)
    upstream[0, 0] = 1.0
    _, results = node_and_results(mlp, torch.zeros(128, 16), upstream)
    derivatives, values = results[3][:6], results[4][0, :6]
    assert torch.allclose(derivatives, (far[:6] > 0).float(), atol=1e-30)
    assert torch.allclose(values, far[:6].clamp(min=0), atol=1e-15)
    assert results[4][0, 6].isnan()


@pytest.mark.parametrize("bad", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_no_number_comes_out_where_none_went_in(activation, bad):
    """Finite values of such a row would hide that a training diverged."""
    mlp, x = MLP(32, hidden=64, activation=activation, biases=True), torch.randn(600, 32)
    expected = mlp(x).detach()
    x[5, 3] = bad
    y = mlp(x)
    assert "Mlp" in type(y.grad_fn).__name__, "not the kernel"
    assert not y[5].isfinite().any()
    assert torch.equal(y[:5], expected[:5])
    assert torch.equal(y[6:], expected[6:])


def test_forward_hooks_of_a_layer_are_called():
    mlp, shapes = MLP(16, hidden=32, activation=activations.GELU, biases=True), []
    mlp.up_proj.register_forward_hook(lambda module, inputs, output: shapes.append(output.shape))
    mlp(torch.randn(150, 16))
    assert shapes == [(150, 32)]
