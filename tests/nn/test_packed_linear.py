"""Packed layers equal the layers they replace."""

import pytest
import torch

from regard.nn import activations
from regard.nn.linear import Linear
from regard.nn.packed_linear import pack_layers


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("packed_for", [0, 1, 2, 9])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize(
    "activation",
    [activations.IDENTITY, activations.GELU],
    ids=lambda activation: activation.name,
)
def test_packed_layers_equal_layers_for_any_number_of_rows(rows, packed_for, biases, activation):
    """The number of rows changes during generation: finished rows leave, beams come back."""
    layers = [Linear(6, 5, bias=biases), Linear(6, 7, bias=biases)]
    packed = pack_layers(layers, packed_for=packed_for, activation=activation)
    x = torch.randn(rows, 6)
    with torch.inference_mode():
        expected = activation.reference(torch.cat([layer(x) for layer in layers], dim=-1))
        assert torch.allclose(packed(x), expected, atol=1e-5)
        assert torch.allclose(packed(x[0]), expected[0], atol=1e-5)
