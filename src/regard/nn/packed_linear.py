"""Linear layers packed for the few rows of a decode step: several layers become one.

    [x W_1ᵀ + b_1 … x W_nᵀ + b_n] = x [W_1; …; W_n]ᵀ + [b_1 … b_n]

An activation may follow. The fastest memory layout of the weights, or the packing for a kernel,
depends on the rows and on the CPU, and takes a copy. Shapes: r rows, in and out widths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.core.process import cpu
from regard.nn.activations import IDENTITY, Activation
from regard.nn.linear import is_plain_linear
from regard.ops.cpu import decode

MANY_ROWS = 6
"From here on weights are stored input-major, whatever their shape."
WIDE_RATIO = 8
"Outputs per input from which a layer counts as very wide, such as one that computes logits."
TRANSPOSE_WIDE_LAYERS = cpu.simd_capability() == "AVX2"
PackedLayer = Callable[[Tensor], Tensor]
"(r,in) -> (r,out), and a single row (in) -> (out)"


def pack_layers(
    layers: Sequence[nn.Module], *, packed_for: int, activation: Activation = IDENTITY
) -> PackedLayer:
    """The activated outputs of all layers for the same x, concatenated.

    Plain linear layers become one matmul; any other layer, such as one with a LoRA adapter, is
    called itself. `packed_for` is the number of rows that weights are packed for; 0 leaves them as
    they are."""
    plain = [layer for layer in layers if isinstance(layer, nn.Linear) and is_plain_linear(layer)]
    if len(plain) < len(layers) or len({layer.bias is None for layer in plain}) > 1:
        if len(layers) == 1:
            return _with_activation(layers[0], activation)
        separate = [
            pack_layers([layer], packed_for=packed_for, activation=activation) for layer in layers
        ]
        return lambda x: torch.cat([layer(x) for layer in separate], dim=-1)
    weight = _concatenate([layer.weight for layer in plain])
    bias = None if plain[0].bias is None else _concatenate([layer.bias for layer in plain])
    if packed_for and decode.supports(weight):
        return decode.packed_linear(weight, bias, activation_id=activation.kernel_id)
    return _with_activation(_choose_layout(weight, bias, rows=packed_for), activation)


def _with_activation(linear: PackedLayer, activation: Activation) -> PackedLayer:
    if activation is IDENTITY:
        return linear
    return lambda x: activation.reference(linear(x))


def _choose_layout(weight: Tensor, bias: Tensor | None, *, rows: int) -> PackedLayer:
    outputs, inputs = weight.shape
    if TRANSPOSE_WIDE_LAYERS and rows > 1 and outputs >= WIDE_RATIO * inputs:
        return _transposed_linear(weight, bias)
    # More outputs than inputs, or many rows: an input-major weight is faster.
    input_major = rows >= MANY_ROWS or (rows and inputs < outputs)
    return _linear(weight.t().contiguous().t() if input_major else weight, bias)


def _linear(weight: Tensor, bias: Tensor | None) -> PackedLayer:
    transposed = weight.t()

    def linear(x: Tensor) -> Tensor:
        if x.ndim == 1:  # torch's matrix-vector product has less overhead
            return torch.mv(weight, x) if bias is None else torch.addmv(bias, weight, x)
        return torch.mm(x, transposed) if bias is None else torch.addmm(bias, x, transposed)

    return linear


def _transposed_linear(weight: Tensor, bias: Tensor | None) -> PackedLayer:
    """(W xᵀ)ᵀ: on CPUs with AVX2 and no AVX-512 it takes half the time of x Wᵀ where outputs are
    many, as logits are."""
    linear_of_one = _linear(weight, bias)

    def linear(x: Tensor) -> Tensor:
        if x.ndim == 1:
            return linear_of_one(x)
        y = (weight @ x.t()).t()
        return y.contiguous() if bias is None else y + bias

    return linear


def _concatenate(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
