"""Fused two-layer MLP over many rows, forward and backward (cpu/mlp.c).

    z = x Uᵀ + a        y = activation(z) Wᵀ + b

The kernel keeps the hidden layer in a core's private cache. The two layers one after the other are
the reference (`nn/mlp.py`), and run wherever no kernel does. Shapes: n rows, w model width, hidden.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.ops import linear, operators
from regard.ops.cpu import library

Layer = tuple[Tensor, Tensor | None]
"Weight and bias."


def fused_mlp(x: Tensor, up: Layer, down: Layer, *, activation_id: int) -> Tensor | None:
    """(…,w) -> (…,w) by the layers (hidden,w) and (w,hidden); None where no kernel supports
    them."""
    if not _supports(x, up, down):
        return None
    keep_z = torch.is_grad_enabled() and (
        x.requires_grad or up[0].requires_grad or down[0].requires_grad or _trains_biases(up, down)
    )
    y: Tensor = MLP(x, *up, *down, activation_id, keep_z)[0]
    return y


def _supports(x: Tensor, up: Layer, down: Layer) -> bool:
    """Whether the kernel takes these, and is faster: at any width, for the hidden layer is not
    written."""
    return (
        library.in_use()
        and linear.has_enough_rows(x, up[0].shape[1])
        and linear.fits(x, *up)
        and _down_fits(up[0], *down)
    )


def _trains_biases(*layers: Layer) -> bool:
    return any(bias is not None and bias.requires_grad for _, bias in layers)


def _down_fits(up: Tensor, down: Tensor, down_bias: Tensor | None) -> bool:
    """Whether (w,hidden) and (w) agree with (hidden,w); shapes are checked here, not in C."""
    hidden, w = up.shape
    return (
        down.shape == (w, hidden)
        and library.takes(down, down_bias)
        and down.is_contiguous()
        and (down_bias is None or (down_bias.shape == (w,) and down_bias.is_contiguous()))
    )


class _Mlp(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights_and_settings: Any) -> tuple[Tensor, Tensor]:
        up, _, down, _, ctx.activation_id, _ = weights_and_settings
        x = x.contiguous()  # before it is saved: once, not again in the backward pass
        y, z = MLP.compute(x, *weights_and_settings)
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, z, up, down)
        ctx.mark_non_differentiable(z)
        ctx.set_materialize_grads(False)  # of z: zeros as large as the hidden layer
        return y, z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        arguments = (d_y, *ctx.saved_tensors, ctx.activation_id, ctx.needs_input_grad[:5])
        operators.check("mlp_backward", _backward_fits(*arguments))
        return (*MLP_BACKWARD(*arguments), None, None)


def _fits(
    x: Tensor,
    up: Tensor,
    up_bias: Tensor | None,
    down: Tensor,
    down_bias: Tensor | None,
    *_: Any,
) -> bool:
    return linear.fits(x, up, up_bias) and _down_fits(up, down, down_bias)


def _forward(
    x: Tensor,
    up: Tensor,
    up_bias: Tensor | None,
    down: Tensor,
    down_bias: Tensor | None,
    activation: int,
    keep_z: bool,
) -> tuple[Tensor, Tensor]:
    """Activation ids as in activations.h; z is empty unless kept."""
    y, z = _fake(x, up, keep_z)
    hidden, w = up.shape
    tensors = (x.contiguous(), up, up_bias, down, down_bias, y, z if keep_z else None)
    sizes = (x.numel() // w, w, hidden, activation, torch.get_num_threads())
    library.run("regard_mlp_forward", *tensors, *sizes)
    return y, z


def _fake(x: Tensor, up: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    hidden, w = up.shape
    keep_z = settings[-1]
    return x.new_empty(x.shape), x.new_empty(x.numel() // w if keep_z else 0, hidden)


def _flops(x: Sequence[int], up: Sequence[int], *_: Any, **__: Any) -> int:
    return 4 * math.prod(x) * up[0]


def _backward_fits(
    d_y: Tensor,
    x: Tensor | None,
    z: Tensor,
    up: Tensor,
    down: Tensor,
    activation: int,
    output_mask: Sequence[bool],
) -> bool:
    """x is needed for the gradient of `up` alone."""
    hidden, w = up.shape
    return (
        d_y.shape[-1] == w
        and library.fills_vectors(hidden, w)
        and library.fills_blocks(d_y.numel() // w)
        and library.takes(d_y, x, z, up)
        and _down_fits(up, down, None)
        and up.is_contiguous()
        and z.shape == (d_y.numel() // w, hidden)
        and z.is_contiguous()
        and (not output_mask[1] if x is None else x.shape == d_y.shape)
    )


def _backward(
    d_y: Tensor,
    x: Tensor | None,
    z: Tensor,
    up: Tensor,
    down: Tensor,
    activation: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    hidden, w = up.shape
    shapes = (up.shape, (hidden,), down.shape, (w,))
    gradients = (
        d_y.new_empty(d_y.shape) if output_mask[0] else None,
        *(
            d_y.new_zeros(shape) if needed else None
            for shape, needed in zip(shapes, output_mask[1:], strict=True)
        ),
    )
    tensors = (d_y.contiguous(), None if x is None else x.contiguous(), z, up, down, *gradients)
    sizes = (len(z), w, hidden, activation, torch.get_num_threads())
    library.run("regard_mlp_backward", *tensors, *sizes)
    return gradients


def _fake_backward(
    d_y: Tensor, x: Tensor | None, z: Tensor, up: Tensor, down: Tensor, *settings: Any
) -> tuple[Tensor | None, ...]:
    output_mask = settings[-1]
    hidden, w = up.shape
    shapes = (d_y.shape, up.shape, (hidden,), down.shape, (w,))
    return tuple(
        d_y.new_empty(shape) if needed else None
        for shape, needed in zip(shapes, output_mask, strict=True)
    )


def _flops_backward(
    d_y: Sequence[int],
    x: Sequence[int] | None,
    z: Sequence[int],
    up: Sequence[int],
    down: Sequence[int],
    activation: int,
    output_mask: Sequence[bool],
    **_: Any,
) -> int:
    """As the two layers have it: dh is needed for everything but the last layer's gradients."""
    x_needs, up_needs, up_bias_needs, down_needs, _down_bias_needs = output_mask
    products = (x_needs or up_needs or up_bias_needs, x_needs, up_needs, down_needs)
    return 2 * math.prod(d_y) * up[0] * sum(products)


MLP = operators.define(
    "mlp(Tensor x, Tensor up, Tensor? up_bias, Tensor down, Tensor? down_bias, int activation,"
    " bool keep_z) -> (Tensor, Tensor)",
    cpu=_forward,
    fits=_fits,
    fake=_fake,
    flops=_flops,
    autograd=_Mlp.apply,
)
MLP_BACKWARD = operators.define(
    "mlp_backward(Tensor d_y, Tensor? x, Tensor z, Tensor up, Tensor down, int activation,"
    " bool[5] output_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    cpu=_backward,
    fits=_backward_fits,
    fake=_fake_backward,
    flops=_flops_backward,
)
