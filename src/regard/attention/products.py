"""Linear layers made ready for the few rows that decoding has: one product, laid out for it.

    [x W_1ᵀ + b_1 … x W_nᵀ + b_n] = x [W_1; …; W_n]ᵀ + [b_1 … b_n]

What comes out may be bent at once. How weights are best laid out, or packed for a kernel, depends
on the rows and on the processor, and takes a copy. Shapes: r rows, in and out widths, p pieces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.attention import onednn
from regard.attention.bends import STRAIGHT, Bend
from regard.attention.linear_layer import Linear
from regard.kernels import decoding, library

MANY_ROWS = 6
VERY_WIDE = 8
"Outputs to an input, at least."
COLUMNS_PAY = torch.backends.cpu.get_cpu_capability() == "AVX2"
Product = Callable[[Tensor], Tensor]
"(r, in) -> (r, out), and of one row alone (in) -> (out)"


def product_of(layers: Sequence[nn.Module], *, laid_out_for: int, bend: Bend = STRAIGHT) -> Product:
    """What the layers make of the same x, side by side, bent.

    They share one product where all are plain; another sort of layer, such as one with a trained
    change beside it, is asked itself. Weights are laid out for so many rows, or with 0 left as
    they are."""
    plain = [layer for layer in layers if isinstance(layer, nn.Linear) and is_plain(layer)]
    if len(plain) < len(layers) or len({layer.bias is None for layer in plain}) > 1:
        if len(layers) == 1:
            return _bent(layers[0], bend)
        own = [product_of([layer], laid_out_for=laid_out_for, bend=bend) for layer in layers]
        return lambda x: torch.cat([each(x) for each in own], dim=-1)
    weight = _stacked([layer.weight for layer in plain])
    bias = None if plain[0].bias is None else _stacked([layer.bias for layer in plain])
    if laid_out_for and library.takes(weight):
        return _by_kernel(weight, bias, bend)
    if laid_out_for > 1 and onednn.takes(weight):
        return _packed(weight, bias, bend, rows=laid_out_for)
    return _bent(_laid_out(weight, bias, rows=laid_out_for), bend)


def _by_kernel(weight: Tensor, bias: Tensor | None, bend: Bend) -> Product:
    known = (bend.name, bend.algorithm)
    if known in decoding.BENDS:
        return decoding.product(weight, bias, bend=known)
    return _bent(decoding.product(weight, bias), bend)


def _bent(product: Product, bend: Bend) -> Product:
    if bend is STRAIGHT:
        return product
    plain = bend.plain
    return lambda x: plain(product(x))


def _laid_out(weight: Tensor, bias: Tensor | None, *, rows: int) -> Product:
    if rows == 1 and onednn.takes(weight):
        return _in_pieces(weight, bias)
    outputs, inputs = weight.shape
    if COLUMNS_PAY and rows > 1 and outputs >= VERY_WIDE * inputs:
        return _as_columns(weight, bias)
    # A matrix that widens is read quicker where its inputs stand first; with many rows any is.
    turned = rows >= MANY_ROWS or (rows and inputs < outputs)
    return _whole(weight.t().contiguous().t() if turned else weight, bias)


def _whole(weight: Tensor, bias: Tensor | None) -> Product:
    turned = weight.t()

    def product(x: Tensor) -> Tensor:
        if x.ndim == 1:  # torch has less to do before its kernel begins
            return torch.mv(weight, x) if bias is None else torch.addmv(bias, weight, x)
        return torch.mm(x, turned) if bias is None else torch.addmm(bias, x, turned)

    return product


def _as_columns(weight: Tensor, bias: Tensor | None) -> Product:
    """Where the processor has AVX2 and no more, rows with very many outputs, as where tokens are
    scored, take half the time when they are made as columns."""
    of_one = _whole(weight, bias)

    def product(x: Tensor) -> Tensor:
        if x.ndim == 1:
            return of_one(x)
        columns = (weight @ x.t()).t()
        return columns.contiguous() if bias is None else columns + bias

    return product


def _in_pieces(weight: Tensor, bias: Tensor | None) -> Product:
    """A piece of the outputs for each thread: a product of one row is left to one thread otherwise,
    and reading the matrix is most of it."""
    outputs, inputs = weight.shape
    pieces = math.gcd(outputs, torch.get_num_threads())
    turned = weight.view(pieces, -1, inputs).mT.contiguous()
    biases = None if bias is None else bias.view(pieces, 1, -1)

    def product(x: Tensor) -> Tensor:
        same = x.expand(pieces, 1 if x.ndim == 1 else len(x), inputs)
        made = torch.bmm(same, turned) if biases is None else torch.baddbmm(biases, same, turned)
        return made.view(-1) if x.ndim == 1 else made.transpose(0, 1).reshape(len(x), outputs)

    return product


def _packed(weight: Tensor, bias: Tensor | None, bend: Bend, *, rows: int) -> Product:
    packed = onednn.packed(weight, rows=rows)

    def product(x: Tensor) -> Tensor:
        if x.ndim == 1:
            return onednn.product(x.view(1, -1), packed, bias, bend=bend).view(-1)
        return onednn.product(x, packed, bias, bend=bend)

    return product


def is_plain(layer: nn.Linear) -> bool:
    """Whether a layer is nothing but its matrix and its bias, and nobody listens to it."""
    return type(layer) in (Linear, nn.Linear) and not (
        layer._forward_hooks or layer._forward_pre_hooks
    )


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
