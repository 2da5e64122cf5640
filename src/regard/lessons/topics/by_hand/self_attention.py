"""Self-attention by hand: outputs it cannot produce without projections, and Q, K, V that do.

Shapes: n positions, d width. Scores are inner products without 1/√d.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.lessons import (
    Answer,
    ExerciseSheet,
    Heatmap,
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
)
from regard.lessons.unscaled_attention import attend_unscaled, orthonormal_rows, subscripted

A, B, C, D = range(4)
"Indices of the orthogonal vectors u_a, u_b, u_c, u_d."
MIN_DISTANCE = math.sqrt(0.4)
"Distance of the nearest average of x₁, x₂, x₃ from u_b, in units of β: weights 0.4, 0.2, 0.4."


@lesson("self-attention-by-hand", topic="attention by hand", title="Self-attention by hand")
def self_attention_by_hand(
    *,
    beta: Annotated[float, Range(1, 20)] = 6,
    width: Annotated[int, Range(4, 32)] = 4,
    seed: Seed = 0,
) -> Lesson:
    """Which outputs can self-attention not produce without projections to queries, keys and values?

    Let u_a … u_d be orthogonal, each of length β, and x₁ = u_d+u_b, x₂ = u_a, x₃ = u_c+u_b. With
    q = k = v = x, the largest inner product of x₂ is with itself, so the output c₂ ≈ u_a. Adding
    u_d or u_c to x₂ does not yield u_b: x₂ still has the largest score with itself. Nor would any
    other weights: every output is an average of x₁, x₂, x₃, in which u_b never occurs without u_d
    or u_c, and the nearest such average is 0.63 β away.

    Projections remove the limit. V = (u_b u_bᵀ − u_c u_cᵀ)/β² extracts the required component at
    each position, Q = (u_d u_aᵀ + u_c u_dᵀ)/β² with K = 1 attends to the right one: then c₂ ≈ u_b
    and c₁ ≈ u_b − u_c.
    """
    u = beta * orthonormal_rows(4, width, seed=seed)
    rest = 2 / (math.exp(beta**2) + 2)
    additions = {"nothing": torch.zeros_like(u[A]), "u_d": u[D], "u_c": u[C]}
    plain = {extra: _without_projections(u, added) for extra, added in additions.items()}
    c = _projected(u, *_solution(u))
    distances = {extra: float((out - u[B]).norm()) / beta for extra, out in plain.items()}
    second, first = float((c[1] - u[B]).norm()), float((c[0] - (u[B] - u[C])).norm())
    return Lesson(
        table=LessonTable(
            ("added to x₂", "distance of c₂ from u_b, in β"),
            [*distances.items(), ("nothing, with Q, K, V", second / beta)],
        ),
        chart=line_chart(
            [
                {"β": length, "distance, in β": distance, "": name}
                for length in (1 + 0.25 * step for step in range(17))
                for name, distance in _distances(length, width, seed).items()
            ],
            x="β",
            y="distance, in β",
            series="",
            reference=MIN_DISTANCE,
        ),
        caption="Distance of c₂ from u_b in units of β: without projections it stays above the "
        "dashed line, the minimum over all averages of x₁, x₂, x₃; with Q, K and V it goes to 0.",
        checks=[
            below(
                "distance of c₂ from u_a", (plain["nothing"] - u[A]).norm(), 2 * beta * rest + 1e-12
            ),
            *(
                above(f"distance of c₂ from u_b in β, {extra} added", found, MIN_DISTANCE - 1e-12)
                for extra, found in distances.items()
            ),
            below("distance of c₂ from u_b with Q, K, V", second, 2 * beta * rest + 1e-12),
            below("distance of c₁ from u_b − u_c with Q, K, V", first, 2 * beta * rest + 1e-12),
        ],
        see_also=["attention/multi_head.py", "attention/attend.py", "recipes/projections.toml"],
    )


def _inputs(u: Tensor, added: Tensor) -> Tensor:
    """x₁, x₂ + added, x₃: (3,d)"""
    return torch.stack((u[D] + u[B], u[A] + added, u[C] + u[B]))


def _without_projections(u: Tensor, added: Tensor) -> Tensor:
    """c₂ with q = k = v = x."""
    x = _inputs(u, added)
    return attend_unscaled(x, x, x).out[1]


def _solution(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Q, K, V (d,d) with c₂ ≈ u_b and c₁ ≈ u_b − u_c."""
    squared = u[A] @ u[A]
    q = (torch.outer(u[D], u[A]) + torch.outer(u[C], u[D])) / squared
    v = (torch.outer(u[B], u[B]) - torch.outer(u[C], u[C])) / squared
    return q, torch.eye(len(q), dtype=torch.float64), v


def _projected(u: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """c₁, c₂, c₃ with these projections: (3,d)"""
    x = _inputs(u, torch.zeros_like(u[A]))
    return attend_unscaled(x @ q.T, x @ k.T, x @ v.T).out


def _distances(beta: float, width: int, seed: int) -> dict[str, float]:
    """Distance of c₂ from u_b, in units of β."""
    u = beta * orthonormal_rows(4, width, seed=seed)
    found = {
        "q = k = v = x": _without_projections(u, torch.zeros_like(u[A])),
        "u_d added to x₂": _without_projections(u, u[D]),
        "Q, K and V": _projected(u, *_solution(u))[1],
    }
    return {name: float((out - u[B]).norm()) / beta for name, out in found.items()}


@exercise("self-attention-by-hand")
def self_attention_exercise(seed: int) -> ExerciseSheet:
    u = torch.round(6 * orthonormal_rows(4, 4, seed=seed), decimals=4)
    x = _inputs(u, torch.zeros_like(u[A]))

    def mark(answer: Answer) -> Mark:
        found = attend_unscaled(x @ answer["Q"].T, x @ answer["K"].T, x @ answer["V"].T)
        second, first = (found.out[1] - u[B]).norm(), (found.out[0] - u[B] + u[C]).norm()
        feedback = f"|c₂ − u_b| = {float(second):.3g}, |c₁ − (u_b − u_c)| = {float(first):.3g}."
        labels = subscripted(3, "x")
        distance = max(float(second), float(first))
        return Mark(distance, 0.05, feedback, Heatmap(labels, labels, found.weights))

    return ExerciseSheet(
        task="x₁ = u_d + u_b, x₂ = u_a, x₃ = u_c + u_b; q = Q x, k = K x, v = V x, no scaling. "
        "Find Q, K and V (4 × 4 each) such that c₂ = u_b and c₁ = u_b − u_c, within 0.05.",
        given={"u_a": u[A], "u_b": u[B], "u_c": u[C], "u_d": u[D]},
        slots=(Slot("Q", (4, 4)), Slot("K", (4, 4)), Slot("V", (4, 4))),
        mark=mark,
    )
