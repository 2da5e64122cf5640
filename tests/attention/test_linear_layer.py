"""Products by oneDNN equal torch's own, values and gradients, wherever they may be made."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.attention import bends, linear_layer, onednn, products
from regard.attention.linear_layer import Linear
from regard.model.layers import BENDS

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this torch was built without oneDNN"
)


@pytest.fixture(autouse=True)
def _onednn_pays(monkeypatch):
    monkeypatch.setattr(onednn, "PAYS", True)
    monkeypatch.setattr(linear_layer, "MANY_ROWS", 1)


def close(found, wanted):
    scale = wanted.detach().abs().max().clamp(min=1.0)
    return bool(((found - wanted).detach().abs().max() / scale) <= 1e-5)


@settings(max_examples=40, deadline=None)
@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    inputs=st.integers(1, 40),
    outputs=st.integers(1, 40),
    bias=st.booleans(),
    turned=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_layer_equals_torchs(shape, inputs, outputs, bias, turned, seed):
    torch.manual_seed(seed)
    layer, plain = Linear(inputs, outputs, bias=bias), nn.Linear(inputs, outputs, bias=bias)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(inputs, *shape).movedim(0, -1) if turned else torch.randn(*shape, inputs)
    upstream = torch.randn(*shape, outputs)
    sides = []
    for one in (layer, plain):
        given_x = x.clone().requires_grad_()
        y = one(given_x)
        wanted = (given_x, *one.parameters())
        sides.append((y, *torch.autograd.grad(y, wanted, upstream)))
    assert "_ByOneDnn" in type(layer(x).grad_fn).__name__
    assert all(close(found, wanted) for found, wanted in zip(*sides, strict=True))


def test_a_frozen_layer_gets_no_gradient_and_hands_one_on():
    layer, x = Linear(7, 5).requires_grad_(False), torch.randn(3, 7, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None
    assert close(x.grad, layer.weight.sum(dim=0).expand(3, -1))


def test_few_rows_other_precisions_and_autocast_stay_with_torch(monkeypatch):
    layer = Linear(4, 3)
    assert type(layer.double()(torch.randn(9, 4).double()).grad_fn).__name__ == "AddmmBackward0"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer.float()(torch.randn(9, 4)).dtype is torch.bfloat16
    monkeypatch.setattr(linear_layer, "MANY_ROWS", 10)
    assert type(layer(torch.randn(9, 4)).grad_fn).__name__ == "AddmmBackward0"


def test_the_choice_follows_from_the_processor(monkeypatch):
    for capability, by_amd in (("AVX512", True), ("AVX512", False), ("AVX2", True)):
        monkeypatch.setattr(onednn, "_is_by_amd", lambda answer=by_amd: answer)
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda name=capability: name)
        assert onednn._pays_here() is (capability == "AVX512" and by_amd)


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("laid_out_for", [1, 2, 9])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("bend", [bends.STRAIGHT, bends.GELU], ids=lambda bend: bend.name)
def test_products_laid_out_for_some_rows_serve_any(rows, laid_out_for, biases, bend):
    """Rows leave a batch while it is written, and beams come back."""
    layers = [Linear(6, 5, bias=biases), Linear(6, 7, bias=biases)]
    made = products.product_of(layers, laid_out_for=laid_out_for, bend=bend)
    x = torch.randn(rows, 6)
    with torch.inference_mode():
        wanted = bend.plain(torch.cat([layer(x) for layer in layers], dim=-1))
        assert close(made(x), wanted)
        assert close(made(x[0]), wanted[0])


@pytest.mark.parametrize("bend", BENDS.values(), ids=BENDS)
def test_a_product_is_bent_as_torch_bends_it(bend):
    x = torch.linspace(-30, 30, 9_001)[:, None]
    torch.testing.assert_close(
        onednn.product(x, torch.ones(1, 1), bend=bend), bend.plain(x), rtol=2e-6, atol=2e-6
    )
