"""Extract one value from an average of two by a projection, and when that is possible.

    M = 2AAᵀ        M · ½(v_a + v_b) = v_a

Shapes: n keys, d width, m columns of a basis. Scores are inner products without 1/√d.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
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
    exercise,
    lesson,
    line_chart,
    max_difference,
    near,
)
from regard.lessons.unscaled_attention import attend_unscaled, orthonormal_rows

SHARPNESS = 100.0
"Query length at which the average of two is exact in float64."
TRUE_PROJECTION = "2A(AᵀA)⁻¹Aᵀ, columns scaled"


@lesson("extracting", topic="attention by hand", title="Extracting from an average")
def extracting(
    *,
    width: Annotated[int, Range(4, 32)] = 8,
    inside: Annotated[int, Range(1, 2)] = 2,
    angle: Annotated[float, Range(5, 90)] = 90,
    seed: Seed = 0,
) -> Lesson:
    """How can one value be extracted from an average of two?

    If v_a lies in the column span of A and v_b is orthogonal to it, M = 2AAᵀ gives
    M·½(v_a + v_b) = v_a: with orthonormal columns AAᵀ is the orthogonal projection onto the span of
    A, which keeps v_a and maps v_b to zero; the 2 undoes the ½. Without the 2, as it is often
    written, the result is half of v_a.

    Both conditions matter. If one direction of B has an angle θ < 90° to A, cos θ of v_b's
    component along it leaks into the result; an oblique projection along B avoids this as long as
    the spans intersect only in 0. If the columns of A are not orthonormal, AAᵀ is not a projection;
    A(AᵀA)⁻¹Aᵀ is.
    """
    a, b, v_a, v_b = _spans(width, inside, angle, seed=seed)
    mean = _attended_average(v_a, v_b, seed=seed)
    scaled = a @ torch.diag(torch.linspace(0.5, 2.0, inside, dtype=torch.float64))
    inverse = torch.linalg.inv(scaled.T @ scaled)
    leak = math.cos(math.radians(angle)) * float((b.T @ v_b)[0].abs())
    matrices = {
        "2AAᵀ": 2 * a @ a.T,
        "AAᵀ, without the 2": a @ a.T,
        TRUE_PROJECTION: 2 * scaled @ inverse @ scaled.T,
        "2AAᵀ, columns scaled": 2 * scaled @ scaled.T,
        "projection along B": 2 * _oblique_projection(a, b),
    }
    errors = {name: float((m @ mean - v_a).norm()) for name, m in matrices.items()}
    return Lesson(
        table=LessonTable(("matrix", "distance of M·½(v_a + v_b) from v_a"), list(errors.items())),
        chart=line_chart(
            [
                {"θ, degrees": degrees, "distance from vₐ": error, "matrix": name}
                for degrees in range(5, 91, 5)
                for name, error in _errors_at(degrees, width, inside, seed).items()
            ],
            x="θ, degrees",
            y="distance from vₐ",
            series="matrix",
        ),
        caption="Error against the angle θ between the spans: 2AAᵀ requires 90°.",
        checks=[
            near("average returned by attention", mean, (v_a + v_b) / 2, within=1e-12),
            near("error of 2AAᵀ", errors["2AAᵀ"], leak, within=1e-12),
            near(
                "error of 2AAᵀ at 90°", _errors_at(90, width, inside, seed)["2AAᵀ"], 0, within=1e-12
            ),
            near(  # half of v_a is missing, half of v_b leaks
                "error without the 2",
                (a @ a.T @ (v_a + v_b) / 2 - v_a).norm(),
                ((a @ a.T @ v_b) / 2 - v_a / 2).norm(),
                within=1e-12,
            ),
            near("error of the projection along B", errors["projection along B"], 0, within=1e-9),
            near(
                "error of 2A(AᵀA)⁻¹Aᵀ, columns scaled", errors[TRUE_PROJECTION], leak, within=1e-9
            ),
            above("error of 2AAᵀ, columns scaled", errors["2AAᵀ, columns scaled"], 0.1),
        ],
        see_also=["attention/attend.py", "attention/multi_head.py", "recipes/projections.toml"],
    )


def _spans(
    width: int, inside: int, angle: float, *, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A, B (d,m): orthonormal columns, the first ones at `angle`; v_a in A's span, v_b in B's."""
    basis = orthonormal_rows(2 * inside, width, seed=seed).T
    a, b = basis[:, :inside], basis[:, inside:].clone()
    theta = math.radians(angle)
    b[:, 0] = math.cos(theta) * a[:, 0] + math.sin(theta) * b[:, 0]
    generator = torch.Generator().manual_seed(seed + 1)
    coefficients = torch.rand(2, inside, generator=generator, dtype=torch.float64) + 0.5
    return a, b, a @ coefficients[0], b @ coefficients[1]


def _attended_average(v_a: Tensor, v_b: Tensor, *, seed: int) -> Tensor:
    """½(v_a + v_b) as the output of attention over four keys."""
    keys = orthonormal_rows(4, 4, seed=seed)
    values = torch.stack((v_a, v_b, torch.ones_like(v_a), -torch.ones_like(v_a)))
    return attend_unscaled(SHARPNESS * (keys[0] + keys[1]), keys, values).out


def _oblique_projection(a: Tensor, b: Tensor) -> Tensor:
    """The projection onto A's span along B's: it maps B's span to zero."""
    basis = torch.cat((a, b), dim=1)
    image = torch.cat((a, torch.zeros_like(b)), dim=1)
    projection: Tensor = image @ torch.linalg.pinv(basis)
    return projection


def _errors_at(angle: float, width: int, inside: int, seed: int) -> dict[str, float]:
    a, b, v_a, v_b = _spans(width, inside, angle, seed=seed)
    mean = _attended_average(v_a, v_b, seed=seed)
    matrices = {"2AAᵀ": 2 * a @ a.T, "projection along B": 2 * _oblique_projection(a, b)}
    return {name: float((m @ mean - v_a).norm()) for name, m in matrices.items()}


@exercise("extracting")
def extracting_exercise(seed: int) -> ExerciseSheet:
    basis = torch.round(orthonormal_rows(4, 4, seed=seed), decimals=4).T
    a, b = basis[:, :2], basis[:, 2:]
    generator = torch.Generator().manual_seed(seed + 1)
    coefficients = torch.randn(2, 2, 50, generator=generator, dtype=torch.float64)
    v_a, v_b = a @ coefficients[0], b @ coefficients[1]

    def mark(answer: Answer) -> Mark:
        found = answer["M"] @ ((v_a + v_b) / 2)
        error_a = max_difference(answer["M"] @ a, 2 * a)
        leak_b = max_difference(answer["M"] @ b, torch.zeros_like(b))
        feedback = f"Error on the span of A: {error_a:.2g}; leak from the span of B: {leak_b:.2g}."
        return Mark(max_difference(found, v_a), 0.01, feedback)

    return ExerciseSheet(
        task="v_a lies in the column span of A, v_b in that of B. Find a matrix M (4 × 4) with "
        "M·½(v_a + v_b) = v_a for all such pairs; 50 pairs are tested, within 0.01.",
        given={"A": a, "B": b},
        slots=(Slot("M", (4, 4)),),
        mark=mark,
    )
