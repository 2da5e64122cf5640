"""Decode-step kernels (decode.c): linear layers over a few rows, attention over the KV cache.

    packed_linear = activation(x Wᵀ + b)        decode_attention = softmax(q kᵀ · scale + bias) v

Shapes: r rows, in and out widths; h query heads, g key-value heads, j keys, d head width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from regard.ops.cpu import library

PackedLinear = Callable[[Tensor], Tensor]
"(r,in) -> (r,out), and a single row (in) -> (out)"


def supports(*tensors: Tensor) -> bool:
    """Whether these kernels can be used: no dispatch mode is active, for they are no operators.
    They are called 30 times a token for microseconds each; dispatch would cost 4 % of it."""
    return (
        library.REPLACES_MATMUL
        and _get_current_dispatch_mode() is None
        and library.supports(*tensors)
    )


def packed_linear(weight: Tensor, bias: Tensor | None, *, activation_id: int) -> PackedLinear:
    """Copy and pack a layer, (out,in) and (out); ids of activations as in activations.h."""
    outputs, inputs = weight.shape
    if bias is not None and bias.shape != (outputs,):
        raise ValueError(f"a bias of shape {tuple(bias.shape)} where there are {outputs} outputs")
    packed = weight.new_empty(library.padded_to_panels(outputs) * inputs)
    library.run("regard_pack", weight.contiguous(), packed, outputs, inputs)
    run = library.function("regard_packed_linear")
    bias = None if bias is None else bias.clone()
    weight_address, bias_address = packed.data_ptr(), None if bias is None else bias.data_ptr()

    # The closure passes addresses alone: the default argument keeps the tensors alive.
    def linear(x: Tensor, _alive: tuple[Tensor, Tensor | None] = (packed, bias)) -> Tensor:
        if x.ndim not in (1, 2) or x.shape[-1] != inputs or x.dtype is not torch.float32:
            raise ValueError(
                f"expected (rows, {inputs}) or ({inputs},) of float32, "
                f"got {tuple(x.shape)} of {x.dtype}"
            )
        x = x.contiguous()
        rows = 1 if x.ndim == 1 else len(x)
        out = x.new_empty(outputs if x.ndim == 1 else (rows, outputs))
        run(
            x.data_ptr(),
            weight_address,
            bias_address,
            out.data_ptr(),
            *(rows, inputs, outputs, activation_id, torch.get_num_threads()),
        )
        return out

    return linear


def supports_decode_attention(qkv: Tensor, keys: Tensor, values: Tensor) -> bool:
    """`keys` and `values` are the buffers of the KV cache, (r,g,capacity,d)."""
    rows, _, _, d = qkv.shape
    if not library.fills_vectors(d) or (keys.shape[0], keys.shape[-1]) != (rows, d):
        return False
    if keys.shape != values.shape or not supports(qkv, keys, values):
        return False
    return qkv.is_contiguous() and keys.is_contiguous() and values.is_contiguous()


def decode_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, *, length: int, bias: Tensor | None
) -> Tensor:
    """Append the new position to a cache that holds `length`, and attend from it: qkv
    (r,h+2g,1,d), keys and values (r,g,capacity,d), bias (r,1,1,length+1) -> (r,h·d)."""
    rows, _, _, d = qkv.shape
    _, key_value_heads, capacity, _ = keys.shape
    heads = qkv.shape[1] - 2 * key_value_heads
    new_length = length + 1
    out = qkv.new_empty(rows, heads * d)
    if bias is not None:
        bias = bias.expand(rows, 1, 1, new_length).contiguous()
    sizes = (rows, heads, key_value_heads, new_length, capacity, d)
    if library.function("regard_decode_attention")(
        qkv.data_ptr(),
        keys.data_ptr(),
        values.data_ptr(),
        None if bias is None else bias.data_ptr(),
        out.data_ptr(),
        *(*sizes, d**-0.5, torch.get_num_threads()),
    ):
        raise MemoryError("no memory for the attention scores of one position")
    return out
