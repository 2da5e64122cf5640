"""How near a training step comes to the matmul peak: a step and a large product, in turn."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import torch
from benchmarks.speed import training
from benchmarks.speed.contest import OURS, Row, ratio_by_round
from benchmarks.speed.own_process import OwnProcess, take_turns, times_by_process
from benchmarks.speed.sizes import WIDE

GOAL = 0.7
SIDE = 1024
PRODUCT = f"product of {SIDE:,} × {SIDE:,}"
PRODUCTS = 100
"Of one turn."


def rows(*, rounds: int = 7) -> Iterator[Row]:
    contestants = {
        OURS: training.process_of(OURS, WIDE, dropout=0.0),
        PRODUCT: OwnProcess("benchmarks.speed.peak"),
    }
    taken = times_by_process(contestants, rounds=rounds)
    operations = {OURS: WIDE.step_operations, PRODUCT: 2 * SIDE**3}
    step_at_peak = [one * operations[OURS] / operations[PRODUCT] for one in taken[PRODUCT]]
    yield Row(
        training.GROUP,
        f"one step, {WIDE.name}, dropout 0: fraction of the matmul peak, measured in turn",
        "GFLOP/s",
        {name: operations[name] / median(seconds) / 1e9 for name, seconds in taken.items()},
        ratio_by_round(step_at_peak, taken[OURS]),
        f"ours ÷ {PRODUCT}",
        GOAL,
        notes=[f"{WIDE.step_operations / 1e9:.1f} GFLOP a step by the formula; means over a turn"],
    )


if __name__ == "__main__":
    a, b = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    take_turns(lambda: torch.mm(a, b), often=PRODUCTS)
