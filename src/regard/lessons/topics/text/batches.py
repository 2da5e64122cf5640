"""Padding and buckets: rows of unequal length in one array, and how many places hold nothing.

    waste = 1 − Σ lengths / Σ over batches of (rows · longest row)

Shapes: b rows, t places. `valid`: True = a real token.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Annotated

import numpy as np
import torch

from regard.attention.attend import attend
from regard.attention.masks.mask import padding
from regard.batch import Ints, pad
from regard.data.batching import Plan, bucketed, fixed, in_order, waste
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Check, Draw, Lesson, LessonTable, above, below, equal, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson

THREE_ROWS = ([4, 7, 9, 15, 23, 18], [2, 8, 10], [3, 13, 2, 8])
PADDED = [[4, 7, 9, 15, 23, 18], [2, 8, 10, 0, 0, 0], [3, 13, 2, 8, 0, 0]]
LONGEST = 64
POOLS = (1, 2, 5, 10, 20, 50)
TO_A_BATCH = 3


@lesson("padding", topic="text", title="Padding and buckets")
def padding_and_buckets(
    *,
    rows: Annotated[int, Range(1000, 10_000)] = 5000,
    budget: Annotated[int, Range(256, 1024)] = 512,
    seed: Seed = 0,
) -> Lesson:
    """How are sentences of unequal length put into one array, and what does it cost?

    Each row is filled up with zeros to the longest of its batch, and a mask keeps the zeros from
    being seen, so a padded row comes out as it would alone. Random rows together waste more than
    half of the places when lengths vary as sentences do, because the longest of many is always
    long. Rows of like length together waste a few in a hundred; sorting a pool of rows at a time,
    not all of them, keeps the order of an epoch random.
    """
    lengths = _lengths(rows, seed)
    at_once = budget // int(lengths.mean())
    shuffled = fixed(rows, rows=at_once, seed=seed, epoch=0)
    plans = {
        "random rows": shuffled,
        "buckets, pools of 5 budgets": _buckets(lengths, budget, pool=5, seed=seed),
        "buckets, pools of 50 budgets": _buckets(lengths, budget, pool=50, seed=seed),
        "all rows sorted, for measuring": in_order(lengths, budget=budget),
    }
    shares = {name: waste(lengths, plan) for name, plan in plans.items()}
    by_pool = [(pool, waste(lengths, _buckets(lengths, budget, pool, seed))) for pool in POOLS]
    chosen, again = (
        bucketed(lengths, budget=budget, pool=5, seed=seed, epoch=epoch) for epoch in (0, 1)
    )
    positions = sum(len(row) for row in PADDED)
    tokens = sum(len(row) for row in THREE_ROWS)
    return Lesson(
        table=LessonTable(
            ("plan", "batches", "most places in one", "places", "waste"),
            [
                (name, len(plan), _most(lengths, plan), _places(lengths, plan), shares[name])
                for name, plan in plans.items()
            ],
        ),
        chart=_against_pools(by_pool, shares["random rows"]),
        caption="The share of places that hold no token, against how many batches' worth of rows "
        "are sorted together.",
        checks=[
            equal("the three rows, padded", pad(THREE_ROWS, 0).tolist(), PADDED),
            near(
                "their waste", waste([6, 3, 4], [np.arange(3)]), 1 - tokens / positions, within=1e-9
            ),
            equal(
                "buckets hold each row once",
                torch.from_numpy(np.sort(np.concatenate(chosen))),
                torch.arange(rows),
            ),
            equal(
                "batches that do not begin with their longest row", _unsorted(lengths, chosen), 0
            ),
            below("places of the largest batch in buckets", _most(lengths, chosen), budget),
            above("waste of random rows", shares["random rows"], 0.5),
            below("waste of buckets, pools of 50", shares["buckets, pools of 50 budgets"], 0.1),
            equal("the next epoch has the same order", _same_order(chosen, again), False),
            _alone_or_padded(seed),
        ],
        see=["batch.py", "attention/masks/mask.py", "recipes/mini-gpt.toml"],
    )


def _against_pools(by_pool: Sequence[tuple[int, float]], random_rows: float) -> Draw:
    return curves(
        [
            {"pool, in batches": pool, "share of places wasted": share, "plan": plan}
            for pool, in_buckets in by_pool
            for plan, share in (("random rows", random_rows), ("buckets", in_buckets))
        ],
        x="pool, in batches",
        y="share of places wasted",
        series="plan",
        log="x",
    )


def _lengths(rows: int, seed: int) -> Ints:
    """Lengths as sentences have them: many short, a few long."""
    drawn = np.random.default_rng(seed).lognormal(mean=2.7, sigma=0.6, size=rows)
    lengths: Ints = np.clip(drawn.round(), 1, LONGEST).astype(np.int64)
    return lengths


def _buckets(lengths: Ints, budget: int, pool: int, seed: int) -> Plan:
    return bucketed(lengths, budget=budget, pool=pool, seed=seed, epoch=0)


def _most(lengths: Ints, plan: Plan) -> int:
    return max(len(batch) * int(lengths[batch].max()) for batch in plan)


def _places(lengths: Ints, plan: Plan) -> int:
    return sum(len(batch) * int(lengths[batch].max()) for batch in plan)


def _unsorted(lengths: Ints, plan: Plan) -> int:
    return sum(bool((np.diff(lengths[batch]) > 0).any()) for batch in plan)


def _same_order(a: Plan, b: Plan) -> bool:
    return bool(np.array_equal(np.concatenate(a), np.concatenate(b)))


def _alone_or_padded(seed: int) -> Check:
    """That a short row comes out of `attend` the same beside a long one as by itself."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 3, 1, 6, 4, generator=generator, dtype=torch.float64)
    valid = torch.from_numpy(pad([np.ones(len(row)) for row in THREE_ROWS], 0)) > 0
    together = attend(q, k, v, padding(valid)).out[1, :, :3]
    alone = attend(q[1:2, :, :3], k[1:2, :, :3], v[1:2, :, :3]).out[0]
    return near("the second row, padded and alone", together, alone, within=1e-12)


@exercise("padding")
def padding_exercise(seed: int) -> ExerciseSheet:
    lengths = np.random.default_rng(seed).permutation(np.arange(2, 20))[: 3 * TO_A_BATCH]
    best = min(waste(lengths, plan) for plan in _all_plans(len(lengths)))

    def mark(answer: Answer) -> Mark:
        numbers = answer["batches"]
        if sorted(numbers.flatten().tolist()) != list(range(1, len(lengths) + 1)):
            return Mark(1.0, 0.0, f"Every row from 1 to {len(lengths)} has to stand there once.")
        found = waste(lengths, list(numbers.to(torch.int64).numpy() - 1))
        says = f"Your batches waste {found:.1%} of their places; {best:.1%} can be reached."
        return Mark(found - best, 1e-9, says)

    return ExerciseSheet(
        task=f"Rows 1 to {len(lengths)} have these lengths. Put them into 3 batches of "
        f"{TO_A_BATCH} rows so that padding each batch to its longest row wastes least: batches "
        "holds the numbers of the rows, a line for each batch.",
        given={"lengths": lengths.tolist()},
        slots=(Slot("batches", (3, TO_A_BATCH)),),
        mark=mark,
    )


def _all_plans(rows: int) -> list[Plan]:
    """Every way to cut rows into batches of three: 280 of nine."""

    def cut(left: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
        if not left:
            return [[]]
        return [
            [(left[0], *others), *rest]
            for others in combinations(left[1:], TO_A_BATCH - 1)
            for rest in cut(tuple(one for one in left[1:] if one not in others))
        ]

    return [[np.array(batch) for batch in plan] for plan in cut(tuple(range(rows)))]
