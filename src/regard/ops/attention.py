"""Attention without materialised weights, dot-product (cpu/dot.c) and additive (cpu/additive.c).

    out = (softmax(score) · keep / keep_probability) v
    score = scale · q · k, or Σ_m w_m σ(q_m + k_m)

The kernels compute the softmax without subtracting the maximum, and return its denominators: where
one over- or underflows, the output is of no use. Settings of both are random draws of dropout
(b,h,i,j), or None; whether the mask is causal; the draw from which on a weight is kept, and the
probability of that. Shapes: b batch, h heads, i query, j key, m width that is scored, d head width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.ops import operators
from regard.ops.cpu import library


def fits(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether (b,h,i,m), (b,h,j,m) and (b,h,j,d) agree; shapes are checked here, not in C."""
    if not q.ndim == k.ndim == v.ndim == 4:
        return False
    (b, h, i, m), (_, _, j, d) = q.shape, v.shape
    return (
        k.shape == (b, h, j, m)
        and v.shape == (b, h, j, d)
        and bool(b and h and i and j)
        and library.fills_vectors(m, d)
        and library.takes(q, k, v)
    )


class _DotAttention(Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, draws: Tensor | None, *settings: Any
    ) -> tuple[Tensor, Tensor]:
        q, k, v = map(_contiguous_rows, (q, k, v))  # before they are saved: once
        out, denominator = DOT.compute(q, k, v, draws, *settings)
        ctx.save_for_backward(q, k, v, out, denominator, draws)
        ctx.settings = settings
        ctx.mark_non_differentiable(denominator)
        ctx.set_materialize_grads(False)  # of the denominators
        return out, denominator

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return (*DOT_BACKWARD(d_out, *ctx.saved_tensors, *ctx.settings), *[None] * 5)


class _AdditiveAttention(Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        weight: Tensor,
        draws: Tensor | None,
        *settings: Any,
    ) -> tuple[Tensor, Tensor]:
        q, k, v = map(_contiguous_rows, (q, k, v))  # before they are saved: once
        out, denominator = ADDITIVE.compute(q, k, v, weight, draws, *settings)
        ctx.save_for_backward(q, k, v, out, denominator, weight, draws)
        ctx.settings = settings
        ctx.mark_non_differentiable(denominator)
        ctx.set_materialize_grads(False)  # of the denominators
        return out, denominator

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return (*ADDITIVE_BACKWARD(d_out, *ctx.saved_tensors, *ctx.settings), *[None] * 4)


def _dot(
    q: Tensor, k: Tensor, v: Tensor, draws: Tensor | None, *settings: Any
) -> tuple[Tensor, Tensor]:
    return _run_forward("regard_dot_forward", (q, k, v), None, draws, settings)


def _additive(
    q: Tensor, k: Tensor, v: Tensor, weight: Tensor, draws: Tensor | None, *settings: Any
) -> tuple[Tensor, Tensor]:
    return _run_forward("regard_additive_forward", (q, k, v), weight, draws, (*settings, 1.0))


def _run_forward(
    kernel: str,
    inputs: tuple[Tensor, Tensor, Tensor],
    weight: Tensor | None,
    draws: Tensor | None,
    settings: tuple[Any, ...],
) -> tuple[Tensor, Tensor]:
    """(b,h,i,d) in memory (b,i,h,d), as the output projection reads it; and the denominators
    (b,h,i): Σ_j 2^score, which may have over- or underflowed."""
    q, k, v = map(_contiguous_rows, inputs)
    out, denominator = _fake(q, k, v)
    library.run(
        kernel,
        *_strided(q, k, v, out, *[None] * 4),
        *(None if weight is None else weight.contiguous(), None, denominator),
        *_sizes(q, k, v, draws, settings),
    )
    return out, denominator


def _dot_backward(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    denominator: Tensor,
    draws: Tensor | None,
    *settings: Any,
) -> tuple[Tensor, ...]:
    inputs, outputs = (q, k, v), (out, d_out, denominator)
    gradients, _ = _run_backward("regard_dot_backward", inputs, outputs, None, draws, settings)
    return gradients


def _additive_backward(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    denominator: Tensor,
    weight: Tensor,
    draws: Tensor | None,
    *settings: Any,
) -> tuple[Tensor, ...]:
    inputs, outputs, settings = (q, k, v), (out, d_out, denominator), (*settings, 1.0)
    kernel = "regard_additive_backward"
    gradients, d_weight = _run_backward(kernel, inputs, outputs, weight, draws, settings)
    assert d_weight is not None
    return (*gradients, d_weight.sum(dim=0))


def _run_backward(
    kernel: str,
    inputs: tuple[Tensor, Tensor, Tensor],
    outputs: tuple[Tensor, Tensor, Tensor],
    weight: Tensor | None,
    draws: Tensor | None,
    settings: tuple[Any, ...],
) -> tuple[tuple[Tensor, ...], Tensor | None]:
    """Gradients of q, k and v; and that of the weight for each batch row, (b,h,m)."""
    (q, k, v), (out, d_out, denominator) = inputs, outputs
    q, k, v, out, d_out = map(_contiguous_rows, (q, k, v, out, d_out))
    gradients = _fake_backward(d_out, q, k, v)
    d_weight = None if weight is None else q.new_empty(*q.shape[:2], q.shape[-1])
    library.run(
        kernel,
        *_strided(q, k, v, out, d_out, *gradients),
        *(None if weight is None else weight.contiguous(), d_weight, denominator.contiguous()),
        *_sizes(q, k, v, draws, settings),
    )
    return gradients, d_weight


def _dot_fits(q: Tensor, k: Tensor, v: Tensor, draws: Tensor | None, *_: Any) -> bool:
    return fits(q, k, v) and (draws is None or _draws_fit(q, k, draws))


def _additive_fits(
    q: Tensor, k: Tensor, v: Tensor, weight: Tensor, draws: Tensor | None, *_: Any
) -> bool:
    weight_fits = weight.shape == (q.shape[1], q.shape[3]) and library.takes(weight)
    return _dot_fits(q, k, v, draws) and weight_fits


def _draws_fit(q: Tensor, k: Tensor, draws: Tensor) -> bool:
    fills = draws.shape == (*q.shape[:3], k.shape[2]) and draws.is_contiguous()
    return fills and draws.is_cpu and draws.dtype is torch.int16


def _outputs_fit(d_out: Tensor, q: Tensor, v: Tensor, out: Tensor, denominator: Tensor) -> bool:
    return (
        library.takes(d_out, out, denominator)
        and out.shape == d_out.shape == (*q.shape[:3], v.shape[3])
        and denominator.shape == q.shape[:3]
    )


def _dot_backward_fits(
    d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, denominator: Tensor, *rest: Any
) -> bool:
    return _dot_fits(q, k, v, *rest) and _outputs_fit(d_out, q, v, out, denominator)


def _additive_backward_fits(
    d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, denominator: Tensor, *rest: Any
) -> bool:
    return _additive_fits(q, k, v, *rest) and _outputs_fit(d_out, q, v, out, denominator)


def _sizes(
    q: Tensor, k: Tensor, v: Tensor, draws: Tensor | None, settings: tuple[Any, ...]
) -> tuple[library.Argument, ...]:
    causal, keep_threshold, keep_probability, scale = settings
    return (
        *(draws, *q.shape[:3], k.shape[2], q.shape[-1], v.shape[-1], int(causal)),
        *(keep_threshold, scale, keep_probability, torch.get_num_threads()),
    )


def _contiguous_rows(x: Tensor) -> Tensor:
    """Kernels need the last dimension contiguous; the other strides are arbitrary."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _empty_heads(x: Tensor, width: int) -> Tensor:
    """(b,h,i,width), in memory (b,i,h,width)"""
    b, h, i, _ = x.shape
    return x.new_empty(b, i, h, width).transpose(1, 2)


def _strided(*tensors: Tensor | None) -> list[library.Argument]:
    """Each tensor, followed by its strides of batch, head and position."""
    arguments: list[library.Argument] = []
    for x in tensors:
        arguments += (None, 0, 0, 0) if x is None else (x, *x.stride()[:3])
    return arguments


def _fake(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _empty_heads(q, v.shape[-1]), q.new_empty(q.shape[:3])


def _fake_backward(
    d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    d_q, d_k, d_v = (_empty_heads(x, x.shape[-1]) for x in (q, k, v))
    return d_q, d_k, d_v


def _fake_additive_backward(*tensors: Any) -> tuple[Tensor, ...]:
    return (*_fake_backward(*tensors), torch.empty_like(tensors[6]).contiguous())


def _flops(q: Sequence[int], k: Sequence[int], v: Sequence[int], *_: Any, **__: Any) -> int:
    """Scores and mixed values of all pairs: torch's counter leaves out no forbidden pair either."""
    return 2 * math.prod(q[:3]) * k[2] * (q[3] + v[3])


def _dot_flops_backward(d_out: Sequence[int], *inputs: Any, **_: Any) -> int:
    """Scores again, then gradients of v, weights, q and k: five products to two, as in torch."""
    return _flops(*inputs) * 5 // 2


def _additive_flops_backward(d_out: Sequence[int], *inputs: Any, **_: Any) -> int:
    """Scores again, then the gradients of v, weights and w; the rest is no matrix product."""
    return _flops(*inputs) * 2


_SETTINGS = "Tensor? draws, bool causal, int keep_threshold, float keep_probability"
_SAVED = "Tensor d_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor denominator"
DOT = operators.define(
    f"dot_attention(Tensor q, Tensor k, Tensor v, {_SETTINGS}, float scale) -> (Tensor, Tensor)",
    cpu=_dot,
    fits=_dot_fits,
    fake=_fake,
    flops=_flops,
    autograd=_DotAttention.apply,
)
DOT_BACKWARD = operators.define(
    f"dot_attention_backward({_SAVED}, {_SETTINGS}, float scale) -> (Tensor, Tensor, Tensor)",
    cpu=_dot_backward,
    fits=_dot_backward_fits,
    fake=_fake_backward,
    flops=_dot_flops_backward,
)
ADDITIVE = operators.define(
    f"additive_attention(Tensor q, Tensor k, Tensor v, Tensor weight, {_SETTINGS})"
    " -> (Tensor, Tensor)",
    cpu=_additive,
    fits=_additive_fits,
    fake=_fake,
    flops=_flops,
    autograd=_AdditiveAttention.apply,
)
ADDITIVE_BACKWARD = operators.define(
    f"additive_attention_backward({_SAVED}, Tensor weight, {_SETTINGS})"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    cpu=_additive_backward,
    fits=_additive_backward_fits,
    fake=_fake_additive_backward,
    flops=_additive_flops_backward,
)
