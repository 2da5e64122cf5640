"""Products laid out for decoding equal their layers."""

import pytest
import torch

from regard.nn import activations
from regard.nn.linear import Linear
from regard.nn.packed_linear import pack_layers


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("laid_out_for", [0, 1, 2, 9])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize(
    "bend", [activations.IDENTITY, activations.GELU], ids=lambda bend: bend.name
)
def test_products_laid_out_for_some_rows_serve_any(rows, laid_out_for, biases, bend):
    """Rows leave a batch while it is written, and beams come back."""
    layers = [Linear(6, 5, bias=biases), Linear(6, 7, bias=biases)]
    made = pack_layers(layers, laid_out_for=laid_out_for, bend=bend)
    x = torch.randn(rows, 6)
    with torch.inference_mode():
        wanted = bend.plain(torch.cat([layer(x) for layer in layers], dim=-1))
        assert torch.allclose(made(x), wanted, atol=1e-5)
        assert torch.allclose(made(x[0]), wanted[0], atol=1e-5)
