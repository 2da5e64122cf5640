"""Linear layers made ready for the few rows that decoding has: one product, laid out for it.

    [x W_1ᵀ + b_1 … x W_nᵀ + b_n] = x [W_1; …; W_n]ᵀ + [b_1 … b_n]

A matrix that widens is read quicker where its inputs stand first, and with many rows any matrix is;
that takes a copy. Rows with very many outputs, as where tokens are scored, are made as columns where
the processor has AVX2 and no more: that takes half the time. Shapes: r rows, in and out widths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

MANY_ROWS = 6
VERY_WIDE = 8
"Outputs to an input, at least."
COLUMNS_PAY = torch.backends.cpu.get_cpu_capability() == "AVX2"
Product = Callable[[Tensor], Tensor]
"(r, in) -> (r, out), and of one row alone (in) -> (out)"


def product_of(layers: Sequence[nn.Module], *, laid_out_for: int) -> Product:
    """What the layers make of the same x, side by side.

    They share one product where all are plain; another sort of layer, such as one with a trained
    change beside it, is asked itself. Weights are laid out for so many rows, or with 0 left as
    they are."""
    plain = [layer for layer in layers if isinstance(layer, nn.Linear) and is_plain(layer)]
    if len(plain) < len(layers) or len({layer.bias is None for layer in plain}) > 1:
        if len(layers) == 1:
            return layers[0]
        own = [product_of([layer], laid_out_for=laid_out_for) for layer in layers]
        return lambda x: torch.cat([each(x) for each in own], dim=-1)
    weight = _stacked([layer.weight for layer in plain])
    bias = None if plain[0].bias is None else _stacked([layer.bias for layer in plain])
    turned, (outputs, inputs) = weight.t(), weight.shape
    if laid_out_for >= MANY_ROWS or (laid_out_for and inputs < outputs):
        turned = turned.contiguous()
    matrix = turned.t()
    as_columns = COLUMNS_PAY and laid_out_for > 1 and outputs >= VERY_WIDE * inputs

    def product(x: Tensor) -> Tensor:
        if x.ndim == 1:  # torch has less to do before its kernel begins
            return torch.mv(matrix, x) if bias is None else torch.addmv(bias, matrix, x)
        if as_columns:
            columns = matrix @ x.t()
            return columns.t().contiguous() if bias is None else columns.t() + bias
        return torch.mm(x, turned) if bias is None else torch.addmm(bias, x, turned)

    return product


def is_plain(layer: nn.Linear) -> bool:
    """Whether a layer is nothing but its matrix and its bias, and nobody listens to it."""
    return type(layer) is nn.Linear and not (layer._forward_hooks or layer._forward_pre_hooks)


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
