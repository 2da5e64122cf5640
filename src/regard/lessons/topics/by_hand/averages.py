"""Attention by hand, averages: of all values, of two of them, and how good usual answers are.

Shapes: n keys, d width. Scores are plain inner products, as on paper (`lessons/by_hand.py`).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from regard.lessons.by_hand import look_up, names, orthonormal, spread_keys, weights_of
from regard.lessons.exercise import (
    Answer,
    ExerciseSheet,
    Mark,
    Slot,
    Weights,
    exercise,
    far,
    numbers,
)
from regard.lessons.lesson import Lesson, LessonTable, above, below, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.lessons.topics.by_hand.one_key import NEAR_ONE

FIRST_TWO = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64)


@lesson("averaging", topic="attention by hand")
def averaging(*, factor: Annotated[float, Range(0.1, 10_000)] = 10) -> Lesson:
    """How well do k̄ and (k₁+k₂)/2 average all values, and the first two?

    For all values the zero query is exact: every score is 0, every weight 1/n. The mean key k̄,
    often given as the answer, only comes near, because keys differ in how much they resemble their
    mean. For the first two, (k₁+k₂)/2 points the right way but is too short: 29 % of the weight
    stays on the other keys, and ten times that vector leaves 0.01 %.

    Still longer is worse again: k₁ and k₂ do not score exactly alike, and a large factor turns the
    small difference into a winner. A query found by optimisation through `attend` evens their
    scores, and then longer is only better.
    """
    half = (NEAR_ONE[0] + NEAR_ONE[1]) / 2
    mean = weights_of(NEAR_ONE.mean(dim=0), NEAR_ONE)
    zero = weights_of(torch.zeros(3, dtype=torch.float64), NEAR_ONE)
    plain, tenfold = weights_of(half, NEAR_ONE), weights_of(10 * half, NEAR_ONE)
    chosen = weights_of(factor * half, NEAR_ONE)
    found = better_query(NEAR_ONE, FIRST_TWO, length=100 * float(half.norm()))
    better = weights_of(found, NEAR_ONE)
    rows = [
        {"factor": times, "weight": weight, "key": key}
        for times in (10 ** (step / 6) for step in range(-6, 22))
        for key, weight in _weights_at(times, half, found).items()
    ]
    shown = {
        "k̄": mean,
        "0": zero,
        "(k₁+k₂)/2": plain,
        "10·(k₁+k₂)/2": tenfold,
        f"{factor:g}·(k₁+k₂)/2": chosen,
        "1,000·(k₁+k₂)/2": weights_of(1000 * half, NEAR_ONE),
        "optimised, as long as 100·(k₁+k₂)/2": better,
    }
    return Lesson(
        table=LessonTable(("query", *names(4)), [(name, *w.tolist()) for name, w in shown.items()]),
        chart=curves(rows, x="factor", y="weight", series="key", log="x"),
        caption="Weights of the four keys for factor · (k₁+k₂)/2: too short leaves k₃ and k₄ their "
        "share, too long lets k₂ win. The optimised query, just as long, keeps k₁ at one half.",
        checks=[
            near("weights of k̄", mean, [0.2282, 0.2858, 0.2396, 0.2464], within=5e-5),
            near("weights of the zero query", zero, [0.25] * 4, within=1e-15),
            near("(k₁+k₂)/2: weight on the other two", plain[2:].sum(), 0.288, within=5e-4),
            near("ten times that: weight on the other two", tenfold[2:].sum(), 1.2e-4, within=5e-6),
            above("1,000 times that: error, one key wins", _error(1000 * half), 0.35),
            below("optimised: error of the weights", float((better - FIRST_TWO).abs().max()), 1e-6),
        ],
        see=["attention/attend.py", "attention/function.py", "recipes/dot-vs-additive.toml"],
    )


def _weights_at(factor: float, half: Tensor, better: Tensor) -> dict[str, float]:
    weights = weights_of(factor * half, NEAR_ONE).tolist()
    as_long = weights_of(factor * half.norm() * better / better.norm(), NEAR_ONE)
    return {**dict(zip(names(4), weights, strict=True)), "k₁, optimised": float(as_long[0])}


def _error(q: Tensor) -> float:
    return float((weights_of(q, NEAR_ONE) - FIRST_TWO).abs().max())


def better_query(keys: Tensor, wanted: Tensor, *, length: float) -> Tensor:
    """The query of this length whose weights come nearest to `wanted`, by gradients of `attend`.

    The length grows step by step: from a short query every key still gets a gradient."""
    direction, reached = (wanted @ keys).numpy(), 1.0
    while True:
        loss = partial(_loss_and_gradient, keys=keys, wanted=wanted, length=reached)
        direction = minimize(loss, direction, jac=True, method="BFGS", options={"gtol": 1e-9}).x
        direction = direction / np.linalg.norm(direction)
        if reached >= length:
            return length * torch.from_numpy(direction)
        reached = min(2 * reached, length)


def _loss_and_gradient(
    direction: NDArray[np.float64], *, keys: Tensor, wanted: Tensor, length: float
) -> tuple[float, NDArray[np.float64]]:
    """The cross-entropy of the weights of a query that points there."""
    point = torch.from_numpy(direction).requires_grad_()
    weights = weights_of(length * point / point.norm(), keys)
    loss = -(wanted * weights.clamp(min=1e-300).log()).sum()
    (gradient,) = torch.autograd.grad(loss, point)
    return float(loss.detach()), gradient.numpy()


@exercise("averaging")
def averaging_exercise(seed: int) -> ExerciseSheet:
    keys, values = _four_keys(seed), numbers(4, 3, seed=seed + 1)
    a, b = torch.randperm(4, generator=torch.Generator().manual_seed(seed)).tolist()[:2]

    def mark(answer: Answer) -> Mark:
        found = look_up(answer["q"], keys, values)
        assert found.weights is not None
        rest = 1 - float(found.weights[[a, b]].sum())
        uneven = float((found.weights[a] - found.weights[b]).abs())
        says = f"{rest:.1%} of the weight is on other keys, and the two differ by {uneven:.1%}."
        goal = (values[a] + values[b]) / 2
        return Mark(far(found.out, goal), 0.02, says, Weights(["q"], names(4), found.weights[None]))

    return ExerciseSheet(
        task=f"Find a query q with which softmax(K q)ᵀ V is the average of values {a + 1} and "
        f"{b + 1}, within 0.02.",
        given={"keys": keys, "values": values},
        slots=(Slot("q", (3,)),),
        mark=mark,
    )


def _four_keys(seed: int) -> Tensor:
    """Four keys in three dimensions that span a body: then every average has its query."""
    for extra in range(1000):
        keys = torch.round(spread_keys(4, 3, seed=seed + 7919 * extra), decimals=2)
        if float(torch.linalg.svdvals(keys[1:] - keys[0]).min()) > 0.5:
            return keys
    raise AssertionError("random keys are hardly ever flat")


@lesson("average-of-two", topic="attention by hand", title="The average of two")
def average_of_two(
    *,
    beta: Annotated[float, Range(1, 50)] = 20,
    keys: Annotated[int, Range(3, 64)] = 8,
    seed: Seed = 0,
) -> Lesson:
    """Which query returns the average of two values?

    With orthonormal keys, q = β(k_a + k_b) scores β on a and on b and 0 on every other key, so each
    of the two has the weight e^β / (2e^β + n − 2). What is left to the others is below
    (n − 2)/(2e^β): it falls with e^−β and grows with the number of keys. The factor is not a
    detail: q = k_a + k_b alone leaves 52 % on the others when there are 8 keys.
    """
    k = orthonormal(keys, keys, seed=seed)
    weights = weights_of(beta * (k[0] + k[1]), k)
    ratio = math.exp(-beta)
    rows = [
        {"β": b, "error of the output": off, "keys": f"{n} keys"}
        for n in (3, 8, 64)
        for b in range(1, 31)
        if (off := _error_of_two(n, b, seed=seed)) > 1e-14  # below, it is rounding
    ]
    at_1, at_5 = ({n: _left_over(n, b, seed=seed) for n in (3, 8, 64)} for b in (1, 5))
    needed = [(n, math.log(99 * (n - 2) / 2)) for n in (3, 8, 64)]
    return Lesson(
        table=LessonTable(
            ("keys", "left over at β = 1", "left over at β = 5", "β that leaves 1 %"),
            [(n, at_1[n], at_5[n], b) for n, b in needed],
        ),
        chart=curves(rows, x="β", y="error of the output", series="keys", log="y"),
        caption="Distance of the output from ½(v_a + v_b) against β, for 3, 8 and 64 keys whose "
        "values are orthonormal.",
        checks=[
            near("weight of a", weights[0], 1 / (2 + (keys - 2) * ratio), within=1e-12),
            near("weight of b", weights[1], 1 / (2 + (keys - 2) * ratio), within=1e-12),
            below(
                "error of the output",
                _error_of_two(keys, beta, seed=seed),
                (keys - 2) * ratio + 1e-12,
            ),
            near("left over by k_a + k_b, 8 keys", at_1[8], 0.5246, within=1e-4),
            *(
                near(f"left over at β = {b:.2f}, {n} keys", left, 0.01, within=1e-9)
                for n, b in needed
                if (left := _left_over(n, b, seed=seed))
            ),
        ],
        see=["attention/attend.py", "attention/function.py", "recipes/dot-vs-additive.toml"],
    )


def _error_of_two(count: int, beta: float, *, seed: int) -> float:
    """How far q = β(k_a + k_b) misses the average of two of so many orthonormal values."""
    k, v = (orthonormal(count, count, seed=one) for one in (seed, seed + 1))
    out = look_up(beta * (k[0] + k[1]), k, v).out
    return float((out - (v[0] + v[1]) / 2).norm())


def _left_over(count: int, beta: float, *, seed: int) -> float:
    k = orthonormal(count, count, seed=seed)
    return float(weights_of(beta * (k[0] + k[1]), k)[2:].sum())


@exercise("average-of-two")
def average_of_two_exercise(seed: int) -> ExerciseSheet:
    keys = torch.round(orthonormal(6, 6, seed=seed), decimals=4)
    values = numbers(6, 3, seed=seed + 1)
    a, b = torch.randperm(6, generator=torch.Generator().manual_seed(seed)).tolist()[:2]

    def mark(answer: Answer) -> Mark:
        found = look_up(answer["q"], keys, values)
        assert found.weights is not None
        rest = 1 - float(found.weights[[a, b]].sum())
        goal = (values[a] + values[b]) / 2
        drawn = Weights(["q"], names(6), found.weights[None])
        says = f"{rest:.2%} of the weight is on other keys."
        return Mark(far(found.out, goal), 0.01, says, drawn)

    return ExerciseSheet(
        task=f"The keys are orthonormal. Find a query q with which softmax(K q)ᵀ V is the average "
        f"of values {a + 1} and {b + 1}, within 0.01.",
        given={"keys": keys, "values": values},
        slots=(Slot("q", (6,)),),
        mark=mark,
    )
