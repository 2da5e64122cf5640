"""Divergence of a training that went on: its loss rose far above what it had reached.

    above its start    final > 1.5 · first                    and more than half a nat above it
    gain lost          final − lowest > ½ (start − lowest)    after a gain of a quarter of the start

A training whose loss is not finite stops by itself. One whose learning rate is a little too high
may lose in a few updates what it learned, and go on: its scores are then those of another kind of
run, not those of an unlucky seed. Batches are noisy: *first* is the first loss that was logged,
*start* the highest of the first three, *lowest* the lowest median of a fifth of the training,
*final* the lowest loss of the last fifth, and short trainings are not judged. A training that loses
its way before it has gained anything, and ends below 1.5 times its first loss, is not seen here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PARTS = 5
MIN_LOSSES = 8 * PARTS
"Fewer logged losses are too noisy to judge."
START_RATIO = 1.5
START_NATS = 0.5
MIN_GAIN = 0.25
"Of the loss at the start: without a clear gain, noise may look like a loss of it."
MIN_LOST = 0.5
"Of the gain."


def loss_rise(losses: Sequence[float]) -> str:
    """How the loss of a training rose instead of falling, in words; empty if it did not."""
    if len(losses) < MIN_LOSSES:
        return ""
    parts = np.array_split(np.asarray(losses, dtype=np.float64), PARTS)
    medians = [float(np.median(part)) for part in parts]
    first, lowest, final = float(losses[0]), min(medians), float(parts[-1].min())
    start = float(max(losses[:3]))
    if final > START_RATIO * first and final > first + START_NATS:
        return f"its loss rose from {first:.2f} at the start to {final:.2f} at the end"
    gain, lost = start - lowest, final - lowest
    if gain > MIN_GAIN * start and lost > MIN_LOST * gain:
        return f"its loss fell from {start:.2f} to {lowest:.2f}, and rose to {final:.2f} at the end"
    return ""
