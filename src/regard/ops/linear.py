"""Linear layer over many rows, forward and backward (cpu/linear.c).

    y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ dy

`F.linear` is the reference, and runs wherever no kernel does. Shapes: n rows, in and out widths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.ops import operators
from regard.ops.cpu import library

MIN_ROWS = {"avx2": 512, "avx512": 128}
"By library; with fewer rows, packing the weights costs more than it saves."
MIN_PRODUCTS = 2**21
"Multiply-adds of a layer; with fewer, torch is done before the kernel's threads have started."
MIN_WIDTH = 48
"Of input and output; narrower layers are bound by memory, where nothing is to be won."


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(…,in), (out,in), (out) -> (…,out)"""
    if supports(x, weight, bias):
        y: Tensor = LINEAR(x, weight, bias)
        return y
    return F.linear(x, weight, bias)


def supports(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether the kernel takes (…,in), (out,in) and (out), and is faster."""
    outputs, inputs = weight.shape
    return (
        x.numel() * outputs >= MIN_PRODUCTS
        and min(inputs, outputs) >= MIN_WIDTH
        and library.REPLACES_MATMUL
        and library.in_use()
        and library.LIBRARY is not None
        and x.numel() >= MIN_ROWS[library.LIBRARY.name] * inputs
        and fits(x, weight, bias)
    )


def fits(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether (…,in), (out,in) and (out) agree; shapes are checked here, not in C."""
    outputs, inputs = weight.shape
    return (
        x.shape[-1] == inputs
        and library.fills_vectors(inputs, outputs)
        and library.fills_blocks(x.numel() // inputs)
        and library.takes(x, weight, bias)
        and weight.is_contiguous()
        and (bias is None or (bias.shape == (outputs,) and bias.is_contiguous()))
    )


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x = x.contiguous()  # before it is saved: once, not again in the backward pass
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        y: Tensor = LINEAR.compute(x, weight, bias)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        arguments = (d_y, *ctx.saved_tensors, ctx.needs_input_grad)
        operators.check("linear_backward", _backward_fits(*arguments))
        gradients: tuple[Tensor | None, ...] = LINEAR_BACKWARD(*arguments)
        return gradients


def _forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    y, (outputs, inputs) = _fake(x, weight, bias), weight.shape
    sizes = (x.numel() // inputs, inputs, outputs, torch.get_num_threads())
    library.run("regard_linear_forward", x.contiguous(), weight, bias, y, *sizes)
    return y


def _fake(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0])


def _flops(x: Sequence[int], weight: Sequence[int], *_: Any, **__: Any) -> int:
    return 2 * math.prod(x) * weight[0]


def _backward_fits(
    d_y: Tensor, x: Tensor | None, weight: Tensor, output_mask: Sequence[bool]
) -> bool:
    """x is needed for the gradient of the weight alone."""
    outputs, inputs = weight.shape
    return (
        d_y.shape[-1] == outputs
        and library.fills_vectors(inputs, outputs)
        and library.fills_blocks(d_y.numel() // outputs)
        and library.takes(d_y, x, weight)
        and weight.is_contiguous()
        and (not output_mask[1] if x is None else x.shape == (*d_y.shape[:-1], inputs))
    )


def _backward(
    d_y: Tensor, x: Tensor | None, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    outputs, inputs = weight.shape
    gradients = (
        d_y.new_empty(*d_y.shape[:-1], inputs) if output_mask[0] else None,
        torch.zeros_like(weight) if output_mask[1] else None,
        weight.new_zeros(outputs) if output_mask[2] else None,
    )
    x = None if x is None else x.contiguous()
    sizes = (d_y.numel() // outputs, inputs, outputs, torch.get_num_threads())
    library.run("regard_linear_backward", d_y.contiguous(), x, weight, *gradients, *sizes)
    return gradients


def _fake_backward(
    d_y: Tensor, x: Tensor | None, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    x_needs, weight_needs, bias_needs = output_mask
    return (
        d_y.new_empty(*d_y.shape[:-1], weight.shape[1]) if x_needs else None,
        torch.empty_like(weight) if weight_needs else None,
        weight.new_empty(weight.shape[0]) if bias_needs else None,
    )


def _flops_backward(
    d_y: Sequence[int],
    x: Sequence[int] | None,
    weight: Sequence[int],
    output_mask: Sequence[bool],
    **_: Any,
) -> int:
    return 2 * math.prod(d_y) * weight[1] * sum(output_mask[:2])


LINEAR = operators.define(
    "linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
    cpu=_forward,
    fits=fits,
    fake=_fake,
    flops=_flops,
    autograd=_Linear.apply,
)
LINEAR_BACKWARD = operators.define(
    "linear_backward(Tensor d_y, Tensor? x, Tensor weight, bool[3] output_mask)"
    " -> (Tensor, Tensor, Tensor)",
    cpu=_backward,
    fits=_backward_fits,
    fake=_fake_backward,
    flops=_flops_backward,
)
