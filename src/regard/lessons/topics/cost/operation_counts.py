"""Cost of attention: FLOPs of matrix products by torch's counter, and wall-clock time.

Time is only drawn, never checked: the machine may be busy.
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
    """FLOPs of matrix products in one run; elementwise operations are not counted."""

    token_mixing: int
    "Between positions (batched products): scores, mixed values, sums over keys."
    channel_mixing: int
    "Linear layers, applied to each position separately."


@torch.no_grad()
def count_operations(run: Callable[[], object]) -> OperationCounts:
    """Run and count."""
    # FlopCounterMode counts matrix products; the CPU's fused kernel would hide them, so SDPA takes
    # its unfused path, which computes the same products.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    counts = counter.get_flop_counts().get("Global", {})
    token_mixing = counts.get(torch.ops.aten.bmm, 0)
    return OperationCounts(token_mixing, sum(counts.values()) - token_mixing)


@torch.no_grad()
def min_seconds(run: Callable[[], object]) -> float:
    """Minimum over REPEATS runs: other load on the machine can only add time."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def fit_exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Exponent p of cost ∝ sizeᵖ: least-squares slope of the logarithms."""
    x = torch.tensor(sizes, dtype=torch.float64).log()
    y = torch.tensor(costs, dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())
