"""Linear layers made ready for the few rows that decoding has: one product, weights laid out for it.

    [x W_1ᵀ + b_1 … x W_nᵀ + b_n] = x [W_1; …; W_n]ᵀ + [b_1 … b_n]

With many rows the product is quicker where the inputs of the matrix stand first; that takes a copy.
Shapes: r rows, in and out widths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Product = Callable[[Tensor], Tensor]
"(r, in) -> (r, out)"


def product_of(layers: Sequence[nn.Module], *, inputs_first: bool) -> Product:
    """What the layers make of the same x, side by side.

    They share one product where all are plain; another sort of layer, such as one with a trained
    change beside it, is asked itself. `inputs_first` lays their weights out for many rows."""
    if not all(map(is_plain, layers)) or len({layer.bias is None for layer in layers}) > 1:
        own = [product_of([layer], inputs_first=inputs_first) for layer in layers]
        return own[0] if len(own) == 1 else lambda x: torch.cat([each(x) for each in own], dim=-1)
    weight = _stacked([layer.weight for layer in layers])
    bias = None if layers[0].bias is None else _stacked([layer.bias for layer in layers])
    if not inputs_first:
        return partial(F.linear, weight=weight, bias=bias)
    turned = weight.t().contiguous()
    if bias is None:
        return partial(_times, turned)
    return partial(torch.addmm, bias, mat2=turned)


def is_plain(layer: nn.Module) -> bool:
    """Whether a layer is nothing but its matrix and its bias, and nobody listens to it."""
    return type(layer) is nn.Linear and not (layer._forward_hooks or layer._forward_pre_hooks)


def _times(turned: Tensor, x: Tensor) -> Tensor:
    return x @ turned


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
