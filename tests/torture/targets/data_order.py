"""The order of batches after a stop at any of them, in every way of batching."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

from tests.torture.harness import Failure, Target
from tests.training.toy_loader import build_loader

from regard.training.batch_loader import Cursor


def trial(context: None, generator: random.Random, folder: Path) -> str:
    settings = {
        "batches": generator.choice(("packed", "bucketed", "padded")),
        "seed": generator.randrange(100),
        "epochs": generator.choice((1, 3)),
    }
    total = generator.randrange(5, 60)
    everything = list(islice(build_loader(**settings).batches_after(Cursor()), total))
    stop = generator.randrange(len(everything) - 1)
    resumed = build_loader(**settings).batches_after(everything[stop][1])
    rest = list(islice(resumed, len(everything) - stop - 1))
    for (batch, cursor), (again, cursor_again) in zip(everything[stop + 1 :], rest, strict=True):
        if batch.rows != again.rows or cursor != cursor_again or not batch.ids.equal(again.ids):
            raise Failure("lost", f"another batch after a stop at {stop} of {settings}")
    return "same batches"


TARGET = Target(
    "data order", "stops at any batch: the batches that follow are the same", 1_000, trial, batch=50
)
