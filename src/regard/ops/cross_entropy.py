"""Cross-entropy of an output layer, without ever holding the logits of all rows at once.

    loss_i = log Σ_v exp(x_i · e_v) − x_i · e_target        e = rows of the output layer's table

At a vocabulary of thousands, the logits are by far the largest tensor of a step. Rows are processed
in chunks, and the gradient is computed together with the loss, while a chunk's logits are in cache.
Each pass over them costs about as much as a matmul, so there are only two: logits become
exp(x_i · e_v), and are summed. Denominators and targets enter the far smaller gradients instead.
Exponentials are computed by exp2, which is faster than exp. Where a sum over- or underflows, the
chunk is computed again with its maximum subtracted. `reference_losses` is the readable oracle; a
kernel (cpu/cross_entropy.c) does the same with chunks that stay in the cache.

With label smoothing, a fraction ε of each target is spread evenly over all v tokens (Szegedy et
al., 2016):

    loss_i = log Σ_v exp(x_i · e_v) − (1 − ε) x_i · e_target − ε/v Σ_v x_i · e_v

Shapes: n rows, w model width, v vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.core.process.host import is_readable
from regard.ops import operators
from regard.ops.cpu import library
from regard.ops.softmax_exp2 import LOG2_E, in_safe_range

MAX_LOGITS = 2**23
"Logits held at once without a kernel: 32 MB. More leave the cache between the passes."
ROW_MULTIPLE = 64
"torch's matmul is fastest where the rows of a chunk are a multiple of it."
KERNEL_LOGITS = 5 * 2**20
"Logits that the kernel holds at once, approximately: 20 MB, which stay in the shared cache."
MIN_ROWS, MAX_ROWS = 32, 256
"Rows of a kernel's chunk. With fewer rows in all, packing the table costs more than it saves."
MIN_VOCABULARY = 512
"With fewer logits a token, torch's operations are as fast."
MIN_VOCABULARY_BESIDE_FAST_MATMUL = 8000
"""The same where torch's matmul outruns the kernels': on an Intel with AVX-512 steps took 0.93 and
0.84 of the time at vocabularies of 8,000 and 26,600, and 1.11 at 65, all kernels together."""


def weighted_cross_entropy(
    x: Tensor, table: Tensor, *, targets: Tensor, weights: Tensor, smoothing: float = 0.0
) -> Tensor:
    """Σ weight · loss; x (…,w), table (v,w), targets and weights (…)."""
    x, targets, row_weights = x.flatten(0, -2), targets.flatten(), weights.flatten()
    counts = row_weights > 0
    # Weight 0, such as padding: no logits. A model has left these rows out already.
    if is_readable(counts) and not bool(counts.all()):
        x, targets, row_weights = x[counts], targets[counts], row_weights[counts]
    total: Tensor = _WeightedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        x.to(table.dtype), table, targets, row_weights, smoothing
    )
    return total


def token_losses(x: Tensor, table: Tensor, *, targets: Tensor) -> Tensor:
    """−log p(target) at each position, in nats, in the shape of the targets."""
    size = chunk_rows(len(table))
    rows = torch.split(x.flatten(0, -2).to(table.dtype), size)
    chunks = zip(rows, torch.split(targets.flatten(), size), strict=True)
    return torch.cat([reference_losses(row, table, target) for row, target in chunks]).view_as(
        targets
    )


def reference_losses(
    x: Tensor, table: Tensor, targets: Tensor, *, smoothing: float = 0.0
) -> Tensor:
    """(n,w), (v,w), (n) -> (n): the definition, all logits at once."""
    return F.cross_entropy(x @ table.T, targets, reduction="none", label_smoothing=smoothing)


class _WeightedCrossEntropy(Function):
    """Σ weight · loss; forward also computes the gradients of x and of the table."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, table: Tensor, targets: Tensor, weights: Tensor, smoothing: float
    ) -> Tensor:
        weights = weights.to(table.dtype)
        needs = ctx.needs_input_grad[:2]
        by_kernel = kernel_pass(x, table, weights, needs) if supports(x, table, weights) else None
        lse, d_x, d_table = by_kernel or _chunked_pass(x, table, weights, needs)
        target_rows = table[targets]
        if smoothing:
            target_rows = torch.lerp(target_rows, table.mean(dim=0), smoothing)
        losses = lse - (x * target_rows).sum(dim=-1)
        if d_x is not None:
            d_x -= target_rows * weights[:, None]
        if d_table is not None:
            weighted = x * weights[:, None]
            d_table.index_add_(0, targets, weighted, alpha=smoothing - 1)
            if smoothing:
                d_table -= weighted.sum(dim=0) * (smoothing / len(table))
        ctx.gradients = (d_x, d_table)
        return (losses * weights).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if g is None else g * upstream for g in ctx.gradients)
        return (*scaled, None, None, None)


class LogitsPass(NamedTuple):
    """Σ weight · lse and its gradients: the loss but for the targets."""

    lse: Tensor
    "(n): log Σ_v exp(x · e_v)"
    d_x: Tensor | None
    "(n,w), of Σ weight · lse"
    d_table: Tensor | None
    "(v,w), likewise"


def supports(x: Tensor, table: Tensor, weights: Tensor) -> bool:
    """Whether the kernel takes (n,w), (v,w) and (n), and is faster."""
    fewest = MIN_VOCABULARY if library.REPLACES_MATMUL else MIN_VOCABULARY_BESIDE_FAST_MATMUL
    return (
        len(x) >= MIN_ROWS
        and len(table) >= fewest
        and library.in_use()
        and _fits(x, table, weights)
    )


def _fits(x: Tensor, table: Tensor, weights: Tensor, *_: Any) -> bool:
    """Shapes are checked here, not in C."""
    return (
        x.ndim == table.ndim == 2
        and x.shape[1] == table.shape[1]
        and weights.shape == x.shape[:1]
        and library.fills_vectors(x.shape[1])
        and library.takes(x, table, weights)
    )


def kernel_pass(
    x: Tensor, table: Tensor, weights: Tensor, needs: tuple[bool, bool]
) -> LogitsPass | None:
    """(n,w), (v,w), (n), and which of d_x and d_table are needed; None where a denominator over-
    or underflows."""
    denominator, d_x, d_table = LOGITS_PASS(x, table, weights, needs)
    if not in_safe_range(denominator):
        return None
    return LogitsPass(denominator.log(), d_x, d_table)


def _run_kernel(
    x: Tensor, table: Tensor, weights: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Denominators (n), and the gradients that are needed."""
    (n, w), v = x.shape, len(table)
    padded = library.padded_to_panels(v)
    # Independent of the number of threads, for bits would depend on it.
    chunk = max(MIN_ROWS, min(MAX_ROWS, KERNEL_LOGITS // max(padded, 1) // 16 * 16))
    denominator, d_x, _ = _fake(x, table, weights, (output_mask[0], False))
    d_table = x.new_zeros(padded, w) if output_mask[1] else None
    library.run(
        "regard_cross_entropy",
        *(tensor.contiguous() for tensor in (x, x * LOG2_E, weights, table)),
        *(denominator, d_x, d_table),
        *(n, v, w, chunk, torch.get_num_threads()),
    )
    return denominator, d_x, None if d_table is None else d_table[:v]


def _fake(
    x: Tensor, table: Tensor, weights: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    x_needs, table_needs = output_mask
    return (
        x.new_empty(len(x)),
        x.new_empty(x.shape) if x_needs else None,
        x.new_empty(table.shape) if table_needs else None,
    )


def _flops(
    x: Sequence[int],
    table: Sequence[int],
    weights: Sequence[int],
    output_mask: Sequence[bool],
    **_: Any,
) -> int:
    return 2 * math.prod(x) * table[0] * (1 + sum(output_mask))


LOGITS_PASS = operators.define(
    "logits_pass(Tensor x, Tensor table, Tensor weights, bool[2] output_mask)"
    " -> (Tensor, Tensor, Tensor)",
    cpu=_run_kernel,
    fits=_fits,
    fake=_fake,
    flops=_flops,
)


def _chunked_pass(
    x: Tensor, table: Tensor, weights: Tensor, needs: tuple[bool, bool]
) -> LogitsPass:
    lse = x.new_empty(len(x))
    d_x = torch.empty_like(x) if needs[0] else None
    d_table = torch.zeros_like(table) if needs[1] else None
    size = chunk_rows(len(table))
    buffer = table.new_empty(min(size, len(x)), len(table))
    for begin in range(0, len(x), size):
        rows = slice(begin, begin + size)
        exp_logits, denominator = _exp_logits(x[rows] * LOG2_E, table, buffer, lse[rows])
        # weight · softmax(logits) = factor · exp_logits
        factor = weights[rows, None] / denominator
        if d_x is not None:
            torch.mul(torch.mm(exp_logits, table), factor, out=d_x[rows])
        if d_table is not None:
            d_table.addmm_(exp_logits.T, x[rows] * factor)
    return LogitsPass(lse, d_x, d_table)


def chunk_rows(vocabulary: int) -> int:
    return max(1, MAX_LOGITS // vocabulary // ROW_MULTIPLE) * ROW_MULTIPLE


def _exp_logits(
    log2_scaled: Tensor, table: Tensor, buffer: Tensor, lse: Tensor
) -> tuple[Tensor, Tensor]:
    """exp(logits) (n,v) up to one factor per row, in `buffer`, and the sums of its rows (n,1);
    fills `lse` (n)."""
    logits = partial(torch.mm, log2_scaled, table.T, out=buffer[: len(log2_scaled)])
    if log2_scaled.is_cpu:  # elsewhere a look at the sums would cost more than the maximum
        exp_logits = logits().exp2_()
        denominator = exp_logits.sum(dim=-1, keepdim=True)
        lse.copy_(denominator.log().squeeze(1))
        if in_safe_range(denominator):
            return exp_logits, denominator
    exp_logits = logits()
    largest = exp_logits.amax(dim=-1, keepdim=True)
    denominator = exp_logits.sub_(largest).exp2_().sum(dim=-1, keepdim=True)
    lse.copy_((denominator.log() + largest / LOG2_E).squeeze(1))
    return exp_logits, denominator
