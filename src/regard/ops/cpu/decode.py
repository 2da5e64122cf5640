"""Products of a few rows and looks at the past, as writing has them (decoding.c).

    product(x) = bend(x Wᵀ + b)        look = softmax(q kᵀ · scale + added) v

Shapes: r rows, in and out widths; h heads, g of them with keys and values, j keys, d head width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.ops.cpu import library

PackedLinear = Callable[[Tensor], Tensor]


def packed_linear(weight: Tensor, bias: Tensor | None, *, bend: int) -> PackedLinear:
    """(out,in), (out) -> what makes (r,out) of (r,in), and (out) of (in); both are copied. Bends
    are numbered as in bends.h."""
    outputs, inputs = weight.shape
    if bias is not None and bias.shape != (outputs,):
        raise ValueError(f"a bias of shape {tuple(bias.shape)} where there are {outputs} outputs")
    packed = weight.new_empty(library.padded_to_panels(outputs) * inputs)
    library.run("regard_pack", weight.contiguous(), packed, outputs, inputs)
    run = library.function("regard_product")
    bias = None if bias is None else bias.clone()
    weights, added = packed.data_ptr(), None if bias is None else bias.data_ptr()

    # What is only known by its place has to be held as well.
    def of_rows(x: Tensor, _held: tuple[Tensor, Tensor | None] = (packed, bias)) -> Tensor:
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
            weights,
            added,
            out.data_ptr(),
            *(rows, inputs, outputs, bend, torch.get_num_threads()),
        )
        return out

    return of_rows


def supports_decode_attention(made: Tensor, keys: Tensor, values: Tensor) -> bool:
    """`keys` and `values` are the rooms they are kept in, (r,g,capacity,d)."""
    rows, _, _, d = made.shape
    if not library.fills_vectors(d) or (keys.shape[0], keys.shape[-1]) != (rows, d):
        return False
    if keys.shape != values.shape or not library.supports(made, keys, values):
        return False
    return made.is_contiguous() and keys.is_contiguous() and values.is_contiguous()


def decode_attention(
    made: Tensor, keys: Tensor, values: Tensor, *, length: int, added: Tensor | None
) -> Tensor:
    """From the newest place, which joins the `length` that are kept: (r,h+2g,1,d), twice
    (r,g,capacity,d), (r,1,1,length+1) -> (r,h·d)."""
    rows, _, _, d = made.shape
    _, kept_heads, capacity, _ = keys.shape
    heads = made.shape[1] - 2 * kept_heads
    positions = length + 1
    out = made.new_empty(rows, heads * d)
    if added is not None:
        added = added.expand(rows, 1, 1, positions).contiguous()
    if library.function("regard_look")(
        made.data_ptr(),
        keys.data_ptr(),
        values.data_ptr(),
        None if added is None else added.data_ptr(),
        out.data_ptr(),
        *(rows, heads, kept_heads, positions, capacity, d, d**-0.5, torch.get_num_threads()),
    ):
        raise MemoryError("no memory for the scores of one place")
    return out
