"""What attention costs, counted: multiplications and additions of matrix products, by torch's own
counter. Time is measured too, to be drawn and never checked: a machine may be busy.

Shapes: n places, d head width, w model width.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

REPEATS = 4


class OperationCounts(NamedTuple):
    """Floating-point operations of one run; what is element by element is not counted."""

    meeting: int
    "Where places meet: scores, mixed values, sums over keys."
    alone: int
    "Linear layers, which see each place alone."

    @property
    def both(self) -> int:
        return self.meeting + self.alone


@torch.no_grad()
def operations(run: Callable[[], object]) -> OperationCounts:
    """Counted while it runs."""
    # The counter knows matrix products. The CPU's fused kernel hides them: it is asked to take
    # them one by one, which are the same.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    counts = counter.get_flop_counts().get("Global", {})
    meeting = counts.get(torch.ops.aten.bmm, 0)
    return OperationCounts(meeting, sum(counts.values()) - meeting)


@torch.no_grad()
def seconds(run: Callable[[], object]) -> float:
    """The quickest of a few runs: what else a machine is at can only add to it."""
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The power of its size with which a cost grows: the slope of the logarithms."""
    x = torch.tensor(sizes, dtype=torch.float64).log()
    y = torch.tensor(costs, dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())
