"""Linear layers made ready for the few rows that decoding has: one product, laid out for it.

    [x W_1ᵀ + b_1 … x W_nᵀ + b_n] = x [W_1; …; W_n]ᵀ + [b_1 … b_n]

With many rows the product is quicker where the inputs of the matrix stand first; that takes a copy.
Shapes: r rows, in and out widths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Product = Callable[[Tensor], Tensor]
"(r, in) -> (r, out), and of one row alone (in) -> (out)"


def product_of(layers: Sequence[nn.Module], *, inputs_first: bool) -> Product:
    """What the layers make of the same x, side by side.

    They share one product where all are plain; another sort of layer, such as one with a trained
    change beside it, is asked itself. `inputs_first` lays their weights out for many rows."""
    plain = [layer for layer in layers if isinstance(layer, nn.Linear) and is_plain(layer)]
    if len(plain) < len(layers) or len({layer.bias is None for layer in plain}) > 1:
        if len(layers) == 1:
            return layers[0]
        own = [product_of([layer], inputs_first=inputs_first) for layer in layers]
        return lambda x: torch.cat([each(x) for each in own], dim=-1)
    weight = _stacked([layer.weight for layer in plain])
    bias = None if plain[0].bias is None else _stacked([layer.bias for layer in plain])
    turned = weight.t().contiguous() if inputs_first else weight.t()

    def product(x: Tensor) -> Tensor:
        if x.ndim == 1:  # torch has less to do before its kernel begins
            return torch.mv(weight, x) if bias is None else torch.addmv(bias, weight, x)
        return torch.mm(x, turned) if bias is None else torch.addmm(bias, x, turned)

    return product


def is_plain(layer: nn.Linear) -> bool:
    """Whether a layer is nothing but its matrix and its bias, and nobody listens to it."""
    return type(layer) is nn.Linear and not (layer._forward_hooks or layer._forward_pre_hooks)


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
