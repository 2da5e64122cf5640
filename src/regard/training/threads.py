"""CPU threads of a training: as many as have enough to compute in a step.

Threads that wait are asleep after some 20 µs, and waking one takes about as long. Below some 400
MFLOP a step, two threads were slower than one by up to a fifth (docs/performance.md). A rule from
the size of the work, not a stopwatch: two runs on one machine agree in every bit.
"""

from __future__ import annotations

from torch import nn

from regard.core.process.cpu import usable_cores

OPERATIONS_PER_THREAD = 2e8
"Floating-point operations of a step."


def training_threads(model: nn.Module, batch_positions: float) -> int:
    """For steps of this many positions, padding included; at most all cores."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    operations = 6 * parameters * batch_positions  # 2 a multiply-add, and twice that backward
    return max(1, min(usable_cores(), int(operations / OPERATIONS_PER_THREAD)))
