"""Learning-rate schedule: linear warmup, then cosine decay to a minimum.

    lr(s) = lr · s/W                                            s ≤ W   (W warmup steps)
    lr(s) = lr · (f + (1 − f) · ½(1 + cos(π (s − W)/(S − W))))  s > W   (f min ratio, S all steps)

Loshchilov and Hutter, 2017. Steps count from 1.
"""

from __future__ import annotations

import math

from regard.training.settings import Train


def learning_rate(step: int, *, steps: int, settings: Train) -> float:
    warmup_steps = round(settings.warmup_ratio * steps)
    if step <= warmup_steps:
        return settings.lr * step / warmup_steps
    progress = (step - warmup_steps) / max(1, steps - warmup_steps)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return settings.lr * (settings.min_lr_ratio + (1 - settings.min_lr_ratio) * cosine)
