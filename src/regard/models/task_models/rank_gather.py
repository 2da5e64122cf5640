"""The rows of a batch that several ranks compute together, gathered with their gradient.

    forward   X = [x_0; …; x_R]                each rank has its own rows x_r, and all of X after it
    backward  dx_r = the rows of r in Σ_ranks dX

A loss that compares rows, as in-batch negatives do, is then that of one process: each rank computes
it for its own rows against all of them. Shapes: n rows of this rank, b of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.batch import Batch


def gather_rows(x: Tensor, batch: Batch) -> Tensor:
    """(n,…) -> (b,…), in the order of the batch; x itself where no other rank has rows of it."""
    if not batch.rank_rows:
        return x
    y: Tensor = _Gather.apply(x, batch.rank_rows)  # type: ignore[no-untyped-call]
    return y


def own_rows(batch: Batch) -> slice:
    """Where the rows of this rank are among those of the whole batch."""
    if not batch.rank_rows:
        return slice(None)
    return _rows_of(batch.rank_rows, dist.get_rank())


def _rows_of(counts: Sequence[int], rank: int) -> slice:
    first = sum(counts[:rank])
    return slice(first, first + counts[rank])


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, counts: tuple[int, ...]) -> Tensor:
        ctx.counts, ctx.rows = counts, len(x)
        # Blocks of one size: backends gather no others. A rank without rows has one that counts 0.
        block = x.new_zeros(max(*counts, 1), *x.shape[1:])
        own = counts[dist.get_rank()]
        block[:own] = x[:own]
        blocks = [torch.empty_like(block) for _ in counts]
        dist.all_gather(blocks, block)
        return torch.cat([one[:count] for one, count in zip(blocks, counts, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, None]:
        d_y = d_y.contiguous().clone()
        dist.all_reduce(d_y)
        own = d_y[_rows_of(ctx.counts, dist.get_rank())]
        d_x = d_y.new_zeros(ctx.rows, *d_y.shape[1:])
        d_x[: len(own)] = own
        return d_x, None
