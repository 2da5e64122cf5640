"""Attention by hand: averages of all values and of two, and how close the usual answers come.

Shapes: n keys, d width. Scores are inner products without 1/√d (`lessons/unscaled_attention.py`).
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

from regard.lessons import (
    Answer,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    above,
    below,
    exercise,
    lesson,
    line_chart,
    max_difference,
    near,
    rounded_normal,
)
from regard.lessons.topics.by_hand.one_key import NEAR_ONE
from regard.lessons.unscaled_attention import (
    attend_unscaled,
    mark_attention,
    orthonormal_rows,
    separated_keys,
    subscripted,
    unscaled_weights,
)

FIRST_TWO = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64)


@lesson("averaging", topic="attention by hand")
def averaging(*, factor: Annotated[float, Range(0.1, 10_000)] = 10) -> Lesson:
    """How well do the queries k̄ and (k₁+k₂)/2 average all values, and the first two?

    For all values the zero query is exact: every score is 0, every weight 1/n. The mean key k̄,
    often given as the answer, is only close, because its inner products with the keys differ. For
    the first two, (k₁+k₂)/2 has the right direction but is too short: 29 % of the weight stays on
    the other keys; ten times that query leaves 0.01 %.

    Longer queries are worse again: k₁ and k₂ do not score exactly alike, and a large factor
    amplifies the small difference until one key wins. A query optimised by gradients through
    `attend` equalises the two scores; then a longer query is only better.
    """
    half = (NEAR_ONE[0] + NEAR_ONE[1]) / 2
    mean = unscaled_weights(NEAR_ONE.mean(dim=0), NEAR_ONE)
    zero = unscaled_weights(torch.zeros(3, dtype=torch.float64), NEAR_ONE)
    unscaled, tenfold, thousandfold, at_factor = (
        unscaled_weights(times * half, NEAR_ONE) for times in (1, 10, 1000, factor)
    )
    optimised = optimised_query(NEAR_ONE, FIRST_TWO, length=100 * float(half.norm()))
    optimised_weights = unscaled_weights(optimised, NEAR_ONE)
    rows = [
        {"factor": times, "weight": weight, "key": key}
        for times in (10 ** (step / 6) for step in range(-6, 22))
        for key, weight in _weights_at(times, half, optimised).items()
    ]
    shown = {
        "k̄": mean,
        "0": zero,
        "(k₁+k₂)/2": unscaled,
        "10·(k₁+k₂)/2": tenfold,
        f"{factor:g}·(k₁+k₂)/2": at_factor,
        "1,000·(k₁+k₂)/2": thousandfold,
        "optimised, length of 100·(k₁+k₂)/2": optimised_weights,
    }
    return Lesson(
        table=LessonTable(
            ("query", *subscripted(4)), [(name, *w.tolist()) for name, w in shown.items()]
        ),
        chart=line_chart(rows, x="factor", y="weight", series="key", log="x"),
        caption="Weights of the four keys for the query factor · (k₁+k₂)/2: a short query leaves "
        "weight on k₃ and k₄, a long one lets k₂ win. The optimised query of the same length keeps "
        "k₁ at one half.",
        checks=[
            near("weights of k̄", mean, [0.2282, 0.2858, 0.2396, 0.2464], within=5e-5),
            near("weights of the zero query", zero, [0.25] * 4, within=1e-15),
            near("(k₁+k₂)/2: weight on k₃ and k₄", unscaled[2:].sum(), 0.288, within=5e-4),
            near("10·(k₁+k₂)/2: weight on k₃ and k₄", tenfold[2:].sum(), 1.2e-4, within=5e-6),
            above(
                "1,000·(k₁+k₂)/2: error, one key wins",
                max_difference(thousandfold, FIRST_TWO),
                0.35,
            ),
            below(
                "optimised query: error of the weights",
                max_difference(optimised_weights, FIRST_TWO),
                1e-6,
            ),
        ],
        see_also=["attention/attend.py", "attention/function.py", "recipes/dot-vs-additive.toml"],
    )


def _weights_at(factor: float, half: Tensor, optimised: Tensor) -> dict[str, float]:
    weights = unscaled_weights(factor * half, NEAR_ONE).tolist()
    same_length = factor * half.norm() * optimised / optimised.norm()
    return {
        **dict(zip(subscripted(4), weights, strict=True)),
        "k₁, optimised": float(unscaled_weights(same_length, NEAR_ONE)[0]),
    }


def optimised_query(keys: Tensor, target: Tensor, *, length: float) -> Tensor:
    """The query of this length whose weights are closest to `target`, by gradients of `attend`.

    The length is doubled step by step: with a short query every key still has a gradient."""
    direction, current_length = (target @ keys).numpy(), 1.0
    while True:
        loss = partial(_loss_and_gradient, keys=keys, target=target, length=current_length)
        direction = minimize(loss, direction, jac=True, method="BFGS", options={"gtol": 1e-9}).x
        direction = direction / np.linalg.norm(direction)
        if current_length >= length:
            return length * torch.from_numpy(direction)
        current_length = min(2 * current_length, length)


def _loss_and_gradient(
    direction: NDArray[np.float64], *, keys: Tensor, target: Tensor, length: float
) -> tuple[float, NDArray[np.float64]]:
    """Cross-entropy of the weights of a query in this direction."""
    point = torch.from_numpy(direction).requires_grad_()
    weights = unscaled_weights(length * point / point.norm(), keys)
    loss = -(target * weights.clamp(min=1e-300).log()).sum()
    (gradient,) = torch.autograd.grad(loss, point)
    return float(loss.detach()), gradient.numpy()


@exercise("averaging")
def averaging_exercise(seed: int) -> ExerciseSheet:
    keys, values = _four_keys(seed), rounded_normal(4, 3, seed=seed + 1)
    a, b = _two_of(4, seed)

    def mark(answer: Answer) -> Mark:
        found = attend_unscaled(answer["q"], keys, values)
        rest = 1 - float(found.weights[[a, b]].sum())
        gap = float((found.weights[a] - found.weights[b]).abs())
        feedback = (
            f"{rest:.1%} of the weight is on other keys; the two weights differ by {gap:.1%}."
        )
        return mark_attention(found, (values[a] + values[b]) / 2, 0.02, feedback)

    return ExerciseSheet(
        task=f"Find a query q such that softmax(K q)ᵀ V is the average of values {a + 1} and "
        f"{b + 1}, within 0.02.",
        given={"keys": keys, "values": values},
        slots=(Slot("q", (3,)),),
        mark=mark,
    )


def _two_of(count: int, seed: int) -> list[int]:
    """Two different indices below `count`."""
    order: list[int] = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return order[:2]


def _four_keys(seed: int) -> Tensor:
    """Four keys in three dimensions, affinely independent: every weighting has a query."""
    for extra in range(1000):
        keys = torch.round(separated_keys(4, 3, seed=seed + 7919 * extra), decimals=2)
        if float(torch.linalg.svdvals(keys[1:] - keys[0]).min()) > 0.5:
            return keys
    raise AssertionError("random keys are almost surely affinely independent")


@lesson("average-of-two", topic="attention by hand", title="The average of two")
def average_of_two(
    *,
    beta: Annotated[float, Range(1, 50)] = 20,
    keys: Annotated[int, Range(3, 64)] = 8,
    seed: Seed = 0,
) -> Lesson:
    """Which query returns the average of two values?

    With orthonormal keys, q = β(k_a + k_b) has score β on k_a and k_b and 0 on every other key, so
    each of the two has weight e^β / (2e^β + n − 2). The weight left on the other keys is below
    (n − 2)/(2e^β): it decays as e^−β and grows with the number of keys. The factor β matters:
    with 8 keys, q = k_a + k_b alone leaves 52 % on the others.
    """
    k = orthonormal_rows(keys, keys, seed=seed)
    weights = unscaled_weights(beta * (k[0] + k[1]), k)
    ratio = math.exp(-beta)
    rows = [
        {"β": b, "error of the output": error, "keys": f"{n} keys"}
        for n in (3, 8, 64)
        for b in range(1, 31)
        if (error := _error_of_two(n, b, seed=seed)) > 1e-14  # below: rounding errors
    ]
    at_1, at_5 = ({n: _weight_on_others(n, b, seed=seed) for n in (3, 8, 64)} for b in (1, 5))
    needed = [(n, math.log(99 * (n - 2) / 2)) for n in (3, 8, 64)]
    return Lesson(
        table=LessonTable(
            ("keys", "weight on others, β = 1", "weight on others, β = 5", "β that leaves 1 %"),
            [(n, at_1[n], at_5[n], b) for n, b in needed],
        ),
        chart=line_chart(rows, x="β", y="error of the output", series="keys", log="y"),
        caption="Distance of the output from ½(v_a + v_b) against β, for 3, 8 and 64 keys with "
        "orthonormal values.",
        checks=[
            *(
                near(f"weight of {name}", weight, 1 / (2 + (keys - 2) * ratio), within=1e-12)
                for name, weight in zip("ab", weights[:2], strict=True)
            ),
            below(
                "error of the output",
                _error_of_two(keys, beta, seed=seed),
                (keys - 2) * ratio + 1e-12,
            ),
            near("weight on others, q = k_a + k_b, 8 keys", at_1[8], 0.5246, within=1e-4),
            *(
                near(f"weight on others at β = {b:.2f}, {n} keys", rest, 0.01, within=1e-9)
                for n, b in needed
                if (rest := _weight_on_others(n, b, seed=seed))
            ),
        ],
        see_also=["attention/attend.py", "attention/function.py", "recipes/dot-vs-additive.toml"],
    )


def _error_of_two(count: int, beta: float, *, seed: int) -> float:
    """Distance of the output for q = β(k_a + k_b) from the average of two orthonormal values."""
    k, v = (orthonormal_rows(count, count, seed=each) for each in (seed, seed + 1))
    out = attend_unscaled(beta * (k[0] + k[1]), k, v).out
    return float((out - (v[0] + v[1]) / 2).norm())


def _weight_on_others(count: int, beta: float, *, seed: int) -> float:
    k = orthonormal_rows(count, count, seed=seed)
    return float(unscaled_weights(beta * (k[0] + k[1]), k)[2:].sum())


@exercise("average-of-two")
def average_of_two_exercise(seed: int) -> ExerciseSheet:
    keys = torch.round(orthonormal_rows(6, 6, seed=seed), decimals=4)
    values = rounded_normal(6, 3, seed=seed + 1)
    a, b = _two_of(6, seed)

    def mark(answer: Answer) -> Mark:
        found = attend_unscaled(answer["q"], keys, values)
        rest = 1 - float(found.weights[[a, b]].sum())
        feedback = f"{rest:.2%} of the weight is on other keys."
        return mark_attention(found, (values[a] + values[b]) / 2, 0.01, feedback)

    return ExerciseSheet(
        task=f"The keys are orthonormal. Find a query q such that softmax(K q)ᵀ V is the average "
        f"of values {a + 1} and {b + 1}, within 0.01.",
        given={"keys": keys, "values": values},
        slots=(Slot("q", (6,)),),
        mark=mark,
    )
