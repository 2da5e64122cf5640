"""Taking one value out of an average of two, and what it needs of the spans they lie in.

    M = 2AAᵀ        M · ½(v_a + v_b) = v_a

Shapes: n keys, d width, m columns of a basis. Scores are plain inner products, as on paper.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.lessons.by_hand import look_up, orthonormal
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise, far
from regard.lessons.lesson import Lesson, LessonTable, above, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson

SHARPNESS = 100.0
"A factor with which the average of two is exact to the last bit."
MENDED = "2A(AᵀA)⁻¹Aᵀ, columns stretched"


@lesson("extracting", topic="attention by hand", title="Extracting from an average")
def extracting(
    *,
    width: Annotated[int, Range(4, 32)] = 8,
    inside: Annotated[int, Range(1, 2)] = 2,
    angle: Annotated[float, Range(5, 90)] = 90,
    seed: Seed = 0,
) -> Lesson:
    """How does one value come out of an average of two?

    If v_a lies in the span of the columns of A and v_b at right angles to it, M = 2AAᵀ gives
    M·½(v_a + v_b) = v_a: AAᵀ projects onto A's span when its columns are orthonormal, takes v_a as
    it is and v_b to nothing; the 2 undoes the ½. Without the 2, as it is often written, half of v_a
    comes out.

    Both conditions matter. If one direction of B leans towards A by an angle θ, cos θ of v_b's part
    along it leaks in; a projection along B instead of at right angles to A mends that as long as
    the spans do not meet. If A's columns are not orthonormal, AAᵀ is no projection, and
    2A(AᵀA)⁻¹Aᵀ is.
    """
    a, b, v_a, v_b = _spans(width, inside, angle, seed=seed)
    mean = _attended_average(v_a, v_b, seed=seed)
    project, along = 2 * a @ a.T, 2 * _along(a, b)
    stretched = a @ torch.diag(torch.linspace(0.5, 2.0, inside, dtype=torch.float64))
    inverse = torch.linalg.inv(stretched.T @ stretched)
    leak = math.cos(math.radians(angle)) * float((b.T @ v_b)[0].abs())
    matrices = {
        "2AAᵀ": project,
        "AAᵀ, the 2 forgotten": a @ a.T,
        MENDED: 2 * stretched @ inverse @ stretched.T,
        "2AAᵀ, columns stretched": 2 * stretched @ stretched.T,
        "projection along B": along,
    }
    errors = {name: float((m @ mean - v_a).norm()) for name, m in matrices.items()}
    return Lesson(
        table=LessonTable(("matrix", "distance of M·½(v_a + v_b) from v_a"), list(errors.items())),
        chart=curves(
            _errors_by_angle(width, inside, seed),
            x="θ, degrees",
            y="distance from vₐ",
            series="matrix",
        ),
        caption="The error against the angle between the spans: 90° is what 2AAᵀ needs.",
        checks=[
            near("average that attention gave", mean, (v_a + v_b) / 2, within=1e-12),
            near("error of 2AAᵀ", errors["2AAᵀ"], leak, within=1e-12),
            near("error of 2AAᵀ at 90°", _error_at(90, width, inside, seed), 0, within=1e-12),
            near("error without the 2", *_halved(a, v_a, v_b), within=1e-12),
            near("error of the projection along B", errors["projection along B"], 0, within=1e-9),
            near("error of 2A(AᵀA)⁻¹Aᵀ, columns stretched", errors[MENDED], leak, within=1e-9),
            above("error of 2AAᵀ, columns stretched", errors["2AAᵀ, columns stretched"], 0.1),
        ],
        see=["attention/attend.py", "attention/multi_head.py", "recipes/projections.toml"],
    )


def _spans(
    width: int, inside: int, angle: float, *, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A, B (d,m), orthonormal columns, first ones at `angle`; v_a in A's span, v_b in B's."""
    basis = orthonormal(2 * inside, width, seed=seed).T
    a, b = basis[:, :inside], basis[:, inside:].clone()
    lean = math.radians(angle)
    b[:, 0] = math.cos(lean) * a[:, 0] + math.sin(lean) * b[:, 0]
    generator = torch.Generator().manual_seed(seed + 1)
    parts = torch.rand(2, inside, generator=generator, dtype=torch.float64) + 0.5
    return a, b, a @ parts[0], b @ parts[1]


def _attended_average(v_a: Tensor, v_b: Tensor, *, seed: int) -> Tensor:
    """½(v_a + v_b), as attention over four keys gives it."""
    keys = orthonormal(4, 4, seed=seed)
    values = torch.stack((v_a, v_b, torch.ones_like(v_a), -torch.ones_like(v_a)))
    return look_up(SHARPNESS * (keys[0] + keys[1]), keys, values).out


def _along(a: Tensor, b: Tensor) -> Tensor:
    """The projection onto A's span that takes all of B's to nothing."""
    both = torch.cat((a, b), dim=1)
    kept = torch.cat((a, torch.zeros_like(b)), dim=1)
    projection: Tensor = kept @ torch.linalg.pinv(both)
    return projection


def _halved(a: Tensor, v_a: Tensor, v_b: Tensor) -> tuple[float, float]:
    """The error of AAᵀ, and what it has to be: v_a's half is missing, v_b's half leaks."""
    missing = float((a @ a.T @ (v_a + v_b) / 2 - v_a).norm())
    return missing, float(((a @ a.T @ v_b) / 2 - v_a / 2).norm())


def _error_at(angle: float, width: int, inside: int, seed: int) -> float:
    a, _, v_a, v_b = _spans(width, inside, angle, seed=seed)
    return float((2 * a @ a.T @ _attended_average(v_a, v_b, seed=seed) - v_a).norm())


def _errors_by_angle(width: int, inside: int, seed: int) -> list[dict[str, float | str]]:
    rows: list[dict[str, float | str]] = []
    for angle in range(5, 91, 5):
        a, b, v_a, v_b = _spans(width, inside, angle, seed=seed)
        mean = _attended_average(v_a, v_b, seed=seed)
        for name, m in (("2AAᵀ", 2 * a @ a.T), ("projection along B", 2 * _along(a, b))):
            error = float((m @ mean - v_a).norm())
            rows.append({"θ, degrees": angle, "distance from vₐ": error, "matrix": name})
    return rows


@exercise("extracting")
def extracting_exercise(seed: int) -> ExerciseSheet:
    basis = torch.round(orthonormal(4, 4, seed=seed), decimals=4).T
    a, b = basis[:, :2], basis[:, 2:]
    generator = torch.Generator().manual_seed(seed + 1)
    drawn = torch.randn(2, 2, 50, generator=generator, dtype=torch.float64)
    v_a, v_b = a @ drawn[0], b @ drawn[1]

    def mark(answer: Answer) -> Mark:
        found = answer["M"] @ ((v_a + v_b) / 2)
        kept, leaked = far(answer["M"] @ a, 2 * a), far(answer["M"] @ b, torch.zeros_like(b))
        says = f"Of A's part {kept:.2g} is wrong, of B's part {leaked:.2g} comes through."
        return Mark(far(found, v_a), 0.01, says)

    return ExerciseSheet(
        task="v_a lies in the span of A's columns, v_b in that of B's. Find a matrix M (4 × 4) "
        "with M·½(v_a + v_b) = v_a for all of them; 50 pairs are tried, 0.01 is near enough.",
        given={"A": a, "B": b},
        slots=(Slot("M", (4, 4)),),
        mark=mark,
    )
