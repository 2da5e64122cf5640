"""What the ranks of a training tell each other in a step, so that it is the step of one process.

    loss = Σ_ranks Σ_rows sum / weight        weight = Σ_ranks Σ_rows of the whole batch

`OneProcess` sends nothing. `DataParallelSync` keeps the whole model on every rank and adds up
gradients after the backward pass, in flat buffers. torch's DistributedDataParallel would divide by
the number of ranks, and wants to be called for every forward pass; adding up by hand gives the sums
of one process and leaves the model as it is, and every rank computes the same bits after it. Where
one process would have no gradient, no rank has one. `sharded.py` has the third way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.batch import Batch
from regard.training.parallel.rank_batches import RankBatch

BUFFER_BYTES = 32 * 2**20
"Of gradients that are sent together."


class StepBatch(Protocol):
    """A batch as a step sees it: of one process, or what a rank computes of it."""

    @property
    def rows(self) -> tuple[int, ...]: ...

    @property
    def tokens(self) -> int: ...

    def micro_batches(self, count: int) -> list[Batch]: ...


class GradientSync(Protocol):
    """What a step asks of the other ranks."""

    @property
    def stop(self) -> int:
        """The signal that stops this training, on whichever rank; 0 if there is none."""
        ...

    def agree_on_stop(self) -> int:
        """Once more after the last step."""
        ...

    def draws(self, step: int) -> str:
        """The name of the random draws of a step, such as those of dropout."""
        ...

    def begin(self, batch: StepBatch) -> Tensor:
        """The weight of the whole batch, by which loss terms are divided."""
        ...

    def divisor(self, micro_batch: Batch, weight: Tensor) -> Tensor | float:
        """What the loss terms of a micro-batch are divided by."""
        ...

    def finish(self, parameters: Sequence[Tensor], total: Tensor) -> None:
        """After the last backward pass: gradients and loss become those of the whole batch."""
        ...

    def norm(self, norm: Tensor) -> Tensor:
        """The norm of all gradients, of that of the gradients which this rank holds."""
        ...

    def totals(self, batch: StepBatch) -> tuple[float, int]:
        """Loss weight and tokens of the whole batch, of a step that has begun."""
        ...


class OneProcess:
    """A training that is not divided."""

    def __init__(self, *, stop_signal: Callable[[], int] = lambda: 0) -> None:
        self._stop_signal = stop_signal

    @property
    def stop(self) -> int:
        return self._stop_signal()

    def agree_on_stop(self) -> int:
        return self.stop

    def draws(self, step: int) -> str:
        return f"step {step}"

    def begin(self, batch: StepBatch) -> Tensor:
        assert isinstance(batch, Batch)
        return batch.weights.sum()

    def divisor(self, micro_batch: Batch, weight: Tensor) -> Tensor | float:
        return weight

    def finish(self, parameters: Sequence[Tensor], total: Tensor) -> None:
        """Nothing is missing."""

    def norm(self, norm: Tensor) -> Tensor:
        return norm

    def totals(self, batch: StepBatch) -> tuple[float, int]:
        assert isinstance(batch, Batch)
        return float(batch.weights.sum()), batch.tokens


ONE_PROCESS = OneProcess()


class RankSync(ABC):
    """What ranks do in a step, however the model is divided."""

    def __init__(self, *, stop_signal: Callable[[], int] = lambda: 0) -> None:
        self.rank = dist.get_rank()
        self.stop_signal = stop_signal
        self._stop = 0
        self._weight, self._tokens = 0.0, 0

    @property
    def stop(self) -> int:
        """As known to all ranks when the step began."""
        return self._stop

    def draws(self, step: int) -> str:
        return f"step {step} rank {self.rank}"

    def begin(self, batch: StepBatch) -> Tensor:
        assert isinstance(batch, RankBatch)
        sums = torch.zeros(2 + dist.get_world_size(), dtype=torch.float64)
        sums[0], sums[1], sums[2 + self.rank] = batch.weight, batch.tokens, self.stop_signal()
        dist.all_reduce(sums)
        self._weight, self._tokens, self._stop = float(sums[0]), int(sums[1]), int(sums[2:].max())
        return torch.tensor(self._weight)

    def divisor(self, micro_batch: Batch, weight: Tensor) -> Tensor | float:
        return weight if micro_batch.rank_rows[self.rank] else math.inf

    def norm(self, norm: Tensor) -> Tensor:
        return norm

    def totals(self, batch: StepBatch) -> tuple[float, int]:
        return self._weight, self._tokens

    @abstractmethod
    def finish(self, parameters: Sequence[Tensor], total: Tensor) -> None:
        """Gradients and loss become those of the whole batch."""

    def agree_on_stop(self) -> int:
        signals = torch.tensor([max(self._stop, self.stop_signal())])
        dist.all_reduce(signals, op=dist.ReduceOp.MAX)
        self._stop = int(signals)
        return self._stop


class DataParallelSync(RankSync):
    """The whole model on every rank; gradients are summed."""

    @torch.no_grad()
    def finish(self, parameters: Sequence[Tensor], total: Tensor) -> None:
        has_gradient = [p.grad is not None for p in parameters]
        counts = total.new_tensor([0.0, *has_gradient])
        counts[0] = total
        pending = [(counts, dist.all_reduce(counts, async_op=True))]
        buckets = list(in_buffers(parameters))
        for bucket in buckets:
            flat = torch.cat(
                [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket]
            )
            pending.append((flat, dist.all_reduce(flat, async_op=True)))
        for _, work in pending:
            work.wait()
        total.copy_(counts[0])
        # Only where this rank has none does it matter whether another one has.
        anywhere = has_gradient if all(has_gradient) else counts[1:].tolist()
        owned = {id(p) for p, has_one in zip(parameters, anywhere, strict=True) if has_one}
        for bucket, (flat, _) in zip(buckets, pending[1:], strict=True):
            sizes = [p.numel() for p in bucket]
            for p, summed in zip(bucket, torch.split(flat, sizes), strict=True):
                p.grad = summed.view_as(p) if id(p) in owned else None


def in_buffers(parameters: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Parameters whose gradients are sent together: of one dtype, and not too many bytes."""
    bucket: list[Tensor] = []
    size = 0
    for p in parameters:
        if bucket and (size + p.nbytes > BUFFER_BYTES or p.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(p)
        size += p.nbytes
    if bucket:
        yield bucket


def same_bits(model: nn.Module) -> bool:
    """Whether every rank holds the same weights; a collective."""
    views = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    sums = [p.detach().view(views[p.element_size()]).sum() for p in model.parameters()]
    digest = torch.stack(sums).cpu() if sums else torch.zeros(1, dtype=torch.int64)
    smallest, largest = digest.clone(), digest.clone()
    dist.all_reduce(smallest, op=dist.ReduceOp.MIN)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return torch.equal(smallest, largest)
