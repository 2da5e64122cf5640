"""Linear layers made ready for the few rows that decoding has: one product, laid out for it.

    [x W_1ᵀ + b_1 … x W_nᵀ + b_n] = x [W_1; …; W_n]ᵀ + [b_1 … b_n]

What comes out may be bent at once. How weights are best laid out, or packed for a kernel, depends
on the rows and on the processor, and takes a copy. Shapes: r rows, in and out widths, p pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.core import cpu
from regard.nn.activations import IDENTITY, Activation
from regard.nn.linear import is_plain
from regard.ops.cpu import decode, library

MANY_ROWS = 6
VERY_WIDE = 8
"Outputs to an input, at least."
COLUMNS_PAY = cpu.simd_capability() == "AVX2"
PackedLayer = Callable[[Tensor], Tensor]
"(r, in) -> (r, out), and of one row alone (in) -> (out)"


def pack_layers(
    layers: Sequence[nn.Module], *, laid_out_for: int, bend: Activation = IDENTITY
) -> PackedLayer:
    """What the layers make of the same x, side by side, bent.

    They share one product where all are plain; another sort of layer, such as one with a trained
    change beside it, is asked itself. Weights are laid out for so many rows, or with 0 left as
    they are."""
    plain = [layer for layer in layers if isinstance(layer, nn.Linear) and is_plain(layer)]
    if len(plain) < len(layers) or len({layer.bias is None for layer in plain}) > 1:
        if len(layers) == 1:
            return _bent(layers[0], bend)
        own = [pack_layers([layer], laid_out_for=laid_out_for, bend=bend) for layer in layers]
        return lambda x: torch.cat([each(x) for each in own], dim=-1)
    weight = _stacked([layer.weight for layer in plain])
    bias = None if plain[0].bias is None else _stacked([layer.bias for layer in plain])
    if laid_out_for and library.supports(weight):
        return decode.packed_linear(weight, bias, bend=bend.number)
    return _bent(_laid_out(weight, bias, rows=laid_out_for), bend)


def _bent(product: PackedLayer, bend: Activation) -> PackedLayer:
    if bend is IDENTITY:
        return product
    plain = bend.plain
    return lambda x: plain(product(x))


def _laid_out(weight: Tensor, bias: Tensor | None, *, rows: int) -> PackedLayer:
    outputs, inputs = weight.shape
    if COLUMNS_PAY and rows > 1 and outputs >= VERY_WIDE * inputs:
        return _as_columns(weight, bias)
    # A matrix that widens is read quicker where its inputs stand first; with many rows any is.
    turned = rows >= MANY_ROWS or (rows and inputs < outputs)
    return _whole(weight.t().contiguous().t() if turned else weight, bias)


def _whole(weight: Tensor, bias: Tensor | None) -> PackedLayer:
    turned = weight.t()

    def product(x: Tensor) -> Tensor:
        if x.ndim == 1:  # torch has less to do before its kernel begins
            return torch.mv(weight, x) if bias is None else torch.addmv(bias, weight, x)
        return torch.mm(x, turned) if bias is None else torch.addmm(bias, x, turned)

    return product


def _as_columns(weight: Tensor, bias: Tensor | None) -> PackedLayer:
    """Where the processor has AVX2 and no more, rows with very many outputs, as where tokens are
    scored, take half the time when they are made as columns."""
    of_one = _whole(weight, bias)

    def product(x: Tensor) -> Tensor:
        if x.ndim == 1:
            return of_one(x)
        columns = (weight @ x.t()).t()
        return columns.contiguous() if bias is None else columns + bias

    return product


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
