"""Attention by hand, what a mixture still holds: taking one value out of an average, and why two
heads keep two values better than one.

Shapes: b samples, n keys, d width. Scores are plain inner products, as on paper.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.lessons.catalogue import lesson
from regard.lessons.charts import bars, curves
from regard.lessons.exercise import Answer, Mark, Posed, Slot, exercise, far
from regard.lessons.lesson import Lesson, Table, above, below, near
from regard.lessons.parameters import Range, Seed
from regard.lessons.plain import look_up, orthonormal

SHARPNESS = 100.0
"A factor with which the average of two is exact to the last bit."


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
        "2A(AᵀA)⁻¹Aᵀ, columns stretched": 2 * stretched @ inverse @ stretched.T,
        "2AAᵀ, columns stretched": 2 * stretched @ stretched.T,
        "projection along B": along,
    }
    errors = {name: float((m @ mean - v_a).norm()) for name, m in matrices.items()}
    return Lesson(
        table=Table(("matrix", "distance of M·½(v_a + v_b) from v_a"), list(errors.items())),
        chart=curves(
            _errors_by_angle(width, inside, seed), x="θ, degrees", y="error", series="matrix"
        ),
        caption="The error against the angle between the spans: 90° is what 2AAᵀ needs.",
        checks=[
            near("average that attention gave", mean, (v_a + v_b) / 2, within=1e-12),
            near("error of 2AAᵀ", errors["2AAᵀ"], leak, within=1e-12),
            near("error of 2AAᵀ at 90°", _error_at(90, width, inside, seed), 0, within=1e-12),
            near("error without the 2", *_halved(a, v_a, v_b), within=1e-12),
            near("error of the projection along B", errors["projection along B"], 0, within=1e-9),
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
            rows.append({"θ, degrees": angle, "error": error, "matrix": name})
    return rows


@exercise("extracting")
def extracting_exercise(seed: int) -> Posed:
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

    return Posed(
        task="v_a lies in the span of A's columns, v_b in that of B's. Find a matrix M (4 × 4) "
        "with M·½(v_a + v_b) = v_a for all of them; 50 pairs are tried, 0.01 is near enough.",
        given={"A": a, "B": b},
        slots=(Slot("M", (4, 4)),),
        mark=mark,
    )


@lesson("two-heads", topic="attention by hand", title="One head is fragile, two are not")
def two_heads(
    *,
    beta: Annotated[float, Range(10, 500)] = 100,
    alpha: Annotated[float, Range(0, 0.01)] = 1e-4,
    keys: Annotated[int, Range(3, 32)] = 6,
    samples: Annotated[int, Range(500, 20_000)] = 4000,
    seed: Seed = 0,
) -> Lesson:
    """What happens to the average of two values when a key varies in length?

    Let k_a ~ N(μ_a, αI + ½μ_a μ_aᵀ): its direction is sure, its length is not. One head with
    q = β(μ_a + μ_b) compares two large scores, so whichever key is a bit longer wins and the output
    jumps between v_a and v_b. Two heads with q₁ = βμ_a and q₂ = βμ_b compare each key with short
    ones only; their mean stays at ½(v_a + v_b) whatever the length, as long as it is positive.

    It is not always: about 8 % of the samples have q·k_a < 0, since Φ(−√2) = 0.079. There the
    first head sees k_a last, and two heads fail as well. Both figures are shown.
    """
    means, values = torch.eye(keys, dtype=torch.float64), torch.eye(keys, dtype=torch.float64)
    k = _sampled_keys(means, alpha, samples, seed=seed)
    a, b = means[0], means[1]
    one = _outputs([beta * (a + b)], k, values)
    two = _outputs([beta * a, beta * b], k, values)
    turned = k[:, 0] @ (a + b) < 0
    share, expected = float(turned.double().mean()), _normal_below(-1 / math.sqrt(0.5 + 2 * alpha))
    spreads = {
        (heads, which): _spread(out[chosen], (values[0] + values[1]) / 2)
        for heads, out in (("one head", one), ("two heads", two))
        for which, chosen in (("all samples", turned | ~turned), ("q·k_a > 0", ~turned))
    }
    rows = [
        {"samples": which, "spread": size, "heads": heads}
        for (heads, which), size in spreads.items()
    ]
    kept_one, kept_two = spreads["one head", "q·k_a > 0"], spreads["two heads", "q·k_a > 0"]
    return Lesson(
        table=Table(
            ("heads", "spread, all samples", "spread, q·k_a > 0"),
            [
                (heads, spreads[heads, "all samples"], spreads[heads, "q·k_a > 0"])
                for heads in ("one head", "two heads")
            ],
        ),
        chart=bars(rows, name="samples", value="spread", series="heads"),
        caption="Spread of the output: root mean square distance from ½(v_a + v_b), with the "
        "samples whose key points backwards and without them.",
        checks=[
            near(
                "share of samples with q·k_a < 0",
                share,
                expected,
                within=4 * math.sqrt(expected * (1 - expected) / samples),
            ),
            above("spread of one head, q·k_a > 0", kept_one, 0.5),
            below("spread of two heads, q·k_a > 0", kept_two, 0.35 * kept_one),
            below(
                "spread of two heads, all samples",
                spreads["two heads", "all samples"],
                0.6 * spreads["one head", "all samples"],
            ),
        ],
        see=["attention/multi_head.py", "attention/attend.py", "recipes/lookups.toml"],
    )


def _sampled_keys(means: Tensor, alpha: float, samples: int, *, seed: int) -> Tensor:
    """(b,n,d): every key around its mean, the first also longer or shorter."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(samples, *means.shape, generator=generator, dtype=torch.float64)
    k = means + math.sqrt(alpha) * noise
    length = torch.randn(samples, 1, generator=generator, dtype=torch.float64)
    k[:, 0] += math.sqrt(0.5) * length * means[0]
    return k


def _outputs(queries: list[Tensor], k: Tensor, values: Tensor) -> Tensor:
    """(b,d): the mean over the heads, one query each."""
    q = torch.stack(queries) * math.sqrt(k.shape[-1])  # as on paper: no root
    b, h = len(k), len(queries)
    heads_q = q[None, :, None].expand(b, -1, -1, -1)
    heads_k, heads_v = k[:, None].expand(-1, h, -1, -1), values.expand(b, h, -1, -1)
    return attend(heads_q, heads_k, heads_v).out[:, :, 0].mean(dim=1)


def _spread(out: Tensor, goal: Tensor) -> float:
    return float((out - goal).square().sum(dim=-1).mean().sqrt())


def _normal_below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))
