"""Learning-rate schedule: linear warmup, then cosine decay to a floor.

    lr(s) = lr · s/W                                            s ≤ W   (W = warmup steps)
    lr(s) = lr · (f + (1 − f) · ½(1 + cos(π (s − W)/(S − W))))  s > W   (f = floor, S = all steps)

Loshchilov and Hutter, 2017. Steps count from 1.
"""

from __future__ import annotations

import math

from regard.training.settings import Train


def learning_rate(step: int, *, steps: int, settings: Train) -> float:
    warmup = round(settings.warmup * steps)
    if step <= warmup:
        return settings.lr * step / warmup
    done = (step - warmup) / max(1, steps - warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    return settings.lr * (settings.lr_floor + (1 - settings.lr_floor) * cosine)
