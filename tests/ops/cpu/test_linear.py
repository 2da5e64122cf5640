"""A linear layer and a feed-forward network by kernels equal torch's, values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from regard.audits.forward.double import in_double
from regard.nn import activations
from regard.nn.linear import Linear
from regard.nn.mlp import ACTIVATIONS, MLP
from regard.ops.cpu import library, linear

BY_KERNEL = ("_LinearByKernelBackward", "_MlpByKernelBackward")


@pytest.fixture(autouse=True)
def _few_places(monkeypatch):
    monkeypatch.setattr(linear, "MIN_ROWS", 128)


def answers(module, x, upstream):
    """What comes out, and the gradients of whatever takes part in it."""
    x = x.detach().requires_grad_()
    y = module(x)
    wanted = [x, *(one for one in module.parameters() if one.requires_grad)]
    return type(y.grad_fn).__name__, [y.detach(), *torch.autograd.grad(y, wanted, upstream)]


def defined(module, x, upstream):
    return answers(module.double(), x.double(), upstream.double())[1]


def check_equal(module, x, upstream):
    made_by, found = answers(module, x, upstream)
    assert made_by in BY_KERNEL
    for one, other in zip(found, defined(module, x, upstream), strict=True):
        assert (one - other).abs().max() <= 1e-5 * max(other.abs().max(), 1e-2)


@settings(max_examples=20, deadline=None)
@given(
    shape=st.sampled_from([(128,), (191,), (192,), (511,), (513,), (2, 300), (5, 7, 9)]),
    inputs=st.integers(1, 8),
    outputs=st.integers(1, 8),
    biases=st.booleans(),
    turned=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_layer_equals_torchs(shape, inputs, outputs, biases, turned, seed):
    torch.manual_seed(seed)
    inputs, outputs = (count * library.LIBRARY.lanes for count in (inputs, outputs))
    x = torch.randn(inputs, *shape).movedim(0, -1) if turned else torch.randn(*shape, inputs)
    check_equal(Linear(inputs, outputs, bias=biases), x, torch.randn(*shape, outputs))


@settings(max_examples=20, deadline=None)
@given(
    shape=st.sampled_from([(128,), (191,), (192,), (511,), (513,), (2, 300), (5, 7, 9)]),
    width=st.integers(1, 6),
    hidden=st.integers(1, 12),
    bend=st.sampled_from(list(ACTIVATIONS.values())),
    biases=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_network_equals_its_layers(shape, width, hidden, bend, biases, seed):
    torch.manual_seed(seed)
    width, hidden = (count * library.LIBRARY.lanes for count in (width, hidden))
    network = MLP(width, hidden=hidden, bend=bend, biases=biases)
    for one in network.parameters():
        nn.init.normal_(one, std=width**-0.5)
    check_equal(network, torch.randn(*shape, width), torch.randn(*shape, width))


@pytest.mark.parametrize("bend", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_a_bend_and_its_slope_are_torchs(bend):
    """A network that widens one number to many, each moved by its bias, and adds one of them up."""
    lanes, hidden = library.LIBRARY.lanes, 2_048
    network = MLP(lanes, hidden=hidden, bend=bend, biases=True)
    for one in network.parameters():
        nn.init.zeros_(one)
    nn.init.ones_(network.down_proj.weight)
    network.up_proj.bias.data.copy_(torch.linspace(-30, 30, hidden))
    z = network.up_proj.bias.detach().double().requires_grad_()
    slopes = torch.autograd.grad(bend.plain(z).sum(), z)[0]
    upstream = torch.zeros(128, lanes)
    upstream[5, 0] = 1.0
    made_by, found = answers(network, torch.randn(128, lanes), upstream)
    assert made_by in BY_KERNEL
    gradients = dict(zip([name for name, _ in network.named_parameters()], found[2:], strict=True))
    # The narrow layer's gradient is what was bent, the bias's is how steep it was there.
    assert (gradients["down_proj.weight"][0] - bend.plain(z)).abs().max() <= 2e-6
    assert (gradients["up_proj.bias"] - slopes).abs().max() <= 5e-7


def test_what_is_no_number_stays_none():
    network = MLP(16, hidden=32, bend=activations.GELU, biases=True)
    x = torch.randn(140, 16)
    x[139, 3] = torch.nan
    y = network(x)
    assert type(y.grad_fn).__name__ in BY_KERNEL
    assert y[139].isnan().all()
    assert not y[:139].isnan().any()


@pytest.mark.parametrize("trained", ["nothing", "biases", "up_proj", "down_proj"])
def test_frozen_weights_get_no_gradient_and_hand_one_on(trained):
    torch.manual_seed(2)
    network = MLP(32, hidden=64, bend=activations.GELU_TANH, biases=True)
    for name, one in network.named_parameters():
        one.requires_grad_(name.endswith("bias") if trained == "biases" else trained in name)
    check_equal(network, torch.randn(150, 32), torch.randn(150, 32))
    layer = Linear(32, 16).requires_grad_(False)
    check_equal(layer, torch.randn(150, 32), torch.randn(150, 16))


def test_inputs_that_need_no_gradient_get_none():
    network = MLP(32, hidden=64, bend=activations.RELU, biases=True)
    network(torch.randn(130, 32)).sum().backward()
    assert all(one.grad is not None for one in network.parameters())


@pytest.mark.parametrize("positions", [128, 700])
def test_bits_do_not_depend_on_threads(positions):
    torch.manual_seed(3)
    x, threads, found = torch.randn(positions, 48), torch.get_num_threads(), []
    network = MLP(48, hidden=96, bend=activations.GELU, biases=True)
    layer = Linear(48, 48)
    try:
        for count in (1, 2, 3, 40):
            torch.set_num_threads(count)
            found.append([*answers(network, x, x)[1], *answers(layer, x, x)[1]])
    finally:
        torch.set_num_threads(threads)
    assert all(
        torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True)
    )


def test_a_place_has_the_same_bits_wherever_it_stands():
    """Tiles at the end of a block begin earlier: what is made twice comes out alike."""
    network = MLP(48, hidden=96, bend=activations.GELU, biases=True)
    x = torch.randn(200, 48)
    with torch.inference_mode():
        assert torch.equal(network(x)[60:197], network(x[60:197]))


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
def test_what_it_does_not_take_is_left_to_torch(x, layer):
    assert type(layer(x).grad_fn).__name__ == "AddmmBackward0"


@pytest.mark.usefixtures("bf16_products")
def test_autocast_stays_with_torch():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert Linear(16, 16)(torch.randn(200, 16)).dtype is torch.bfloat16


def test_rows_of_another_width_are_refused_by_torch():
    with pytest.raises(RuntimeError):
        Linear(32, 16)(torch.randn(200, 16))


def test_a_bias_that_only_fits_when_stretched_is_left_to_torch():
    layer = Linear(32, 16)
    layer.bias = nn.Parameter(torch.ones(1))
    assert type(layer(torch.randn(200, 32)).grad_fn).__name__ == "AddmmBackward0"
    network = MLP(32, hidden=64, bend=activations.GELU, biases=True)
    network.down_proj.bias = nn.Parameter(torch.ones(1))
    assert type(network(torch.randn(200, 32)).grad_fn).__name__ not in BY_KERNEL


def test_nothing_to_add_up_is_left_to_torch():
    assert not linear.supports(torch.zeros(3, 0), torch.zeros(32, 0), None)


def test_weights_that_became_others_since_are_refused():
    network, layer = MLP(32, hidden=64, bend=activations.GELU, biases=True), Linear(32, 32)
    for module in (network, layer):
        y = module(torch.randn(200, 32))
        module.half()
        with pytest.raises(RuntimeError, match="since the forward pass"):
            y.sum().backward()


def test_whoever_watches_torchs_operations_sees_each():
    layer, x = Linear(32, 16), torch.randn(200, 32)
    with FlopCounterMode(display=False) as counter:
        layer(x)
    assert counter.get_total_flops() == 2 * 200 * 32 * 16
    with in_double():
        assert torch.allclose(layer(x), layer.double()(x.double()).double(), atol=1e-12)


@pytest.mark.parametrize("bend", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_far_from_0_there_is_a_line_or_nothing(bend):
    far = torch.tensor([-1e18, -1e13, -1e4, 1e4, 1e13, 1e18, torch.nan])
    network = MLP(16, hidden=16, bend=bend, biases=True)
    for one in network.parameters():
        nn.init.zeros_(one)
    nn.init.ones_(network.down_proj.weight)
    network.up_proj.bias.data[: len(far)] = far
    upstream = torch.zeros(128, 16)
    upstream[0, 0] = 1.0
    _, found = answers(network, torch.zeros(128, 16), upstream)
    slopes, values = found[3][:6], found[4][0, :6]
    assert torch.allclose(slopes, (far[:6] > 0).float(), atol=1e-30)
    assert torch.allclose(values, far[:6].clamp(min=0), atol=1e-15)
    assert found[4][0, 6].isnan()


def test_whoever_listens_to_a_layer_hears_it():
    network, heard = MLP(16, hidden=32, bend=activations.GELU, biases=True), []
    network.up_proj.register_forward_hook(lambda module, given, made: heard.append(made.shape))
    network(torch.randn(150, 16))
    assert heard == [(150, 32)]
