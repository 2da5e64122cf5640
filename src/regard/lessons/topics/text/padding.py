"""Padding and bucketing: sequences of unequal length in one tensor, and the padding fraction.

    padding fraction = 1 − Σ lengths / Σ over batches of (sequences · longest sequence)

Shapes: b batch, t positions. `valid`: True = a real token.
"""

from __future__ import annotations

from itertools import combinations
from typing import Annotated

import numpy as np
import torch

from regard.attention.attend import attend
from regard.attention.masks.mask import padding
from regard.batch import Ints, pad
from regard.data.batching import (
    BatchPlan,
    bucketed_batches,
    fixed_size_batches,
    padding_fraction,
    sorted_batches,
)
from regard.lessons import (
    Answer,
    Check,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    above,
    below,
    equal,
    exercise,
    lesson,
    line_chart,
    near,
    standard_normal,
)

THREE_SEQUENCES = ([4, 7, 9, 15, 23, 18], [2, 8, 10], [3, 13, 2, 8])
PADDED = [[4, 7, 9, 15, 23, 18], [2, 8, 10, 0, 0, 0], [3, 13, 2, 8, 0, 0]]
MAX_LENGTH = 64
POOLS = (1, 2, 5, 10, 20, 50)
BATCH_SIZE = 3


@lesson("padding", topic="text", title="Padding and buckets")
def padding_and_buckets(
    *,
    rows: Annotated[int, Range(1000, 10_000)] = 5000,
    budget: Annotated[int, Range(256, 1024)] = 512,
    seed: Seed = 0,
) -> Lesson:
    """How are sequences of unequal length batched into one tensor, and what does it cost?

    Each sequence is padded with zeros to the longest of its batch, and a padding mask blocks
    attention to them, so its outputs are the same as without padding. In random batches more than
    half of the positions are padding when lengths vary like those of sentences, because the longest
    of many is always long. Batches of similar length need a few percent; sorting one pool of
    sequences at a time, instead of all, keeps the order of an epoch random.
    """
    lengths = _lengths(rows, seed)
    batch_size = budget // int(lengths.mean())
    shuffled = fixed_size_batches(rows, rows=batch_size, seed=seed, epoch=0)
    plans = {
        "random": shuffled,
        "buckets, pools of 5 batches": _buckets(lengths, budget, pool=5, seed=seed),
        "buckets, pools of 50 batches": _buckets(lengths, budget, pool=50, seed=seed),
        "sorted, for evaluation": sorted_batches(lengths, budget=budget),
    }
    fractions = {name: padding_fraction(lengths, plan) for name, plan in plans.items()}
    by_pool = [
        (pool, padding_fraction(lengths, _buckets(lengths, budget, pool, seed))) for pool in POOLS
    ]
    epoch_0, epoch_1 = (
        bucketed_batches(lengths, budget=budget, pool=5, seed=seed, epoch=epoch) for epoch in (0, 1)
    )
    tokens, positions = (sum(map(len, batch)) for batch in (THREE_SEQUENCES, PADDED))
    return Lesson(
        table=LessonTable(
            ("plan", "batches", "largest batch, positions", "all positions", "padding fraction"),
            [
                (
                    name,
                    len(plan),
                    max(_positions(lengths, plan)),
                    sum(_positions(lengths, plan)),
                    fractions[name],
                )
                for name, plan in plans.items()
            ],
        ),
        chart=line_chart(
            [
                {"pool, batches": pool, "padding fraction": fraction, "plan": plan}
                for pool, bucketed in by_pool
                for plan, fraction in (("random", fractions["random"]), ("buckets", bucketed))
            ],
            x="pool, batches",
            y="padding fraction",
            series="plan",
            log="x",
        ),
        caption="Padding fraction against the size of the pool that is sorted, in batches.",
        checks=[
            equal("three sequences, padded", pad(THREE_SEQUENCES, 0).tolist(), PADDED),
            near(
                "their padding fraction",
                padding_fraction([6, 3, 4], [np.arange(3)]),
                1 - tokens / positions,
                within=1e-9,
            ),
            equal(
                "buckets contain each sequence once",
                torch.from_numpy(np.sort(np.concatenate(epoch_0))),
                torch.arange(rows),
            ),
            equal(
                "batches not in order of decreasing length",
                sum(bool((np.diff(lengths[batch]) > 0).any()) for batch in epoch_0),
                0,
            ),
            below(
                "positions of the largest bucketed batch",
                max(_positions(lengths, epoch_0)),
                budget,
            ),
            above("padding fraction, random batches", fractions["random"], 0.5),
            below(
                "padding fraction, buckets, pools of 50",
                fractions["buckets, pools of 50 batches"],
                0.1,
            ),
            equal(
                "the next epoch has the same order",
                bool(np.array_equal(np.concatenate(epoch_0), np.concatenate(epoch_1))),
                False,
            ),
            _padding_mask_check(seed),
        ],
        see_also=["batch.py", "attention/masks/mask.py", "recipes/mini-gpt.toml"],
    )


def _lengths(rows: int, seed: int) -> Ints:
    """Log-normal like sentence lengths: many short, a few long."""
    draws = np.random.default_rng(seed).lognormal(mean=2.7, sigma=0.6, size=rows)
    lengths: Ints = np.clip(draws.round(), 1, MAX_LENGTH).astype(np.int64)
    return lengths


def _buckets(lengths: Ints, budget: int, pool: int, seed: int) -> BatchPlan:
    return bucketed_batches(lengths, budget=budget, pool=pool, seed=seed, epoch=0)


def _positions(lengths: Ints, plan: BatchPlan) -> list[int]:
    """Positions of each batch, padding included."""
    return [len(batch) * int(lengths[batch].max()) for batch in plan]


def _padding_mask_check(seed: int) -> Check:
    """A padded sequence has the same outputs of `attend` as alone."""
    q, k, v = standard_normal(3, 3, 1, 6, 4, seed=seed)
    valid = torch.from_numpy(pad([np.ones(len(ids)) for ids in THREE_SEQUENCES], 0)) > 0
    padded = attend(q, k, v, padding(valid)).out[1, :, :3]
    alone = attend(q[1:2, :, :3], k[1:2, :, :3], v[1:2, :, :3]).out[0]
    return near("outputs of the second sequence: padded vs alone", padded, alone, within=1e-12)


@exercise("padding")
def padding_exercise(seed: int) -> ExerciseSheet:
    lengths = np.random.default_rng(seed).permutation(np.arange(2, 20))[: 3 * BATCH_SIZE]
    best = min(padding_fraction(lengths, plan) for plan in _all_partitions(len(lengths)))

    def mark(answer: Answer) -> Mark:
        numbers = answer["batches"]
        if sorted(numbers.flatten().tolist()) != list(range(1, len(lengths) + 1)):
            return Mark(1.0, 0.0, f"Use every sequence from 1 to {len(lengths)} exactly once.")
        fraction = padding_fraction(lengths, list(numbers.to(torch.int64).numpy() - 1))
        feedback = f"Padding fraction {fraction:.1%}; the minimum is {best:.1%}."
        return Mark(fraction - best, 1e-9, feedback)

    return ExerciseSheet(
        task=f"Sequences 1 to {len(lengths)} have these lengths. Put them into 3 batches of "
        f"{BATCH_SIZE} such that padding each batch to its longest sequence needs the least "
        "padding: batches contains the sequence numbers, one row per batch.",
        given={"lengths": lengths.tolist()},
        slots=(Slot("batches", (3, BATCH_SIZE)),),
        mark=mark,
    )


def _all_partitions(count: int) -> list[BatchPlan]:
    """All partitions into batches of three: 280 for nine sequences."""

    def partitions(left: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
        if not left:
            return [[]]
        return [
            [(left[0], *others), *rest]
            for others in combinations(left[1:], BATCH_SIZE - 1)
            for rest in partitions(tuple(index for index in left[1:] if index not in others))
        ]

    return [[np.array(batch) for batch in plan] for plan in partitions(tuple(range(count)))]
