"""Two heads keep the average of two values when a key's length varies; one head does not.

    k_a ~ N(μ_a, αI + ½μ_a μ_aᵀ)        one head: q = β(μ_a + μ_b)        two: βμ_a and βμ_b

Shapes: b samples, n keys, d width. Scores are inner products without 1/√d.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.lessons import Lesson, LessonTable, Range, Seed, above, bar_chart, below, lesson, near


@lesson("two-heads", topic="attention by hand", title="One head is fragile, two are robust")
def two_heads(
    *,
    beta: Annotated[float, Range(10, 500)] = 100,
    alpha: Annotated[float, Range(0, 0.01)] = 1e-4,
    keys: Annotated[int, Range(3, 32)] = 6,
    samples: Annotated[int, Range(500, 20_000)] = 4000,
    seed: Seed = 0,
) -> Lesson:
    """What happens to the average of two values when a key varies in length?

    Let k_a ~ N(μ_a, αI + ½μ_a μ_aᵀ): its direction is nearly fixed, its length varies. One head
    with q = β(μ_a + μ_b) compares two large scores, so the slightly longer key wins and the output
    jumps between v_a and v_b. Two heads with q₁ = βμ_a and q₂ = βμ_b each have one large score;
    their mean stays at ½(v_a + v_b) for any positive length.

    The length is not always positive: about 8 % of the samples have q·k_a < 0, since
    Φ(−√2) = 0.079. There k_a has the lowest score of the first head, and two heads fail as well.
    Results are shown with and without these samples.
    """
    means = values = torch.eye(keys, dtype=torch.float64)
    k = _sampled_keys(means, alpha, samples, seed=seed)
    a, b = means[:2]
    goal = (values[0] + values[1]) / 2
    queries = {"one head": [beta * (a + b)], "two heads": [beta * a, beta * b]}
    squared_distances = {
        heads: (_outputs(each, k, values) - goal).square().sum(dim=-1)
        for heads, each in queries.items()
    }
    negative = k[:, 0] @ (a + b) < 0
    expected = 0.5 * math.erfc(1 / math.sqrt(0.5 + 2 * alpha) / math.sqrt(2))  # Φ(−1/√(½ + 2α))
    errors = {
        (heads, subset): float(squared_distance[selected].mean().sqrt())
        for heads, squared_distance in squared_distances.items()
        for subset, selected in (("all samples", negative | ~negative), ("q·kₐ > 0", ~negative))
    }
    rows = [
        {"samples": subset, "RMS error": error, "heads": heads}
        for (heads, subset), error in errors.items()
    ]
    positive_one, positive_two = errors["one head", "q·kₐ > 0"], errors["two heads", "q·kₐ > 0"]
    return Lesson(
        table=LessonTable(
            ("heads", "RMS error, all samples", "RMS error, q·kₐ > 0"),
            [(heads, errors[heads, "all samples"], errors[heads, "q·kₐ > 0"]) for heads in queries],
        ),
        chart=bar_chart(rows, name="samples", value="RMS error", series="heads"),
        caption="Root mean square distance of the output from ½(v_a + v_b), over all samples and "
        "without those whose key points backwards.",
        checks=[
            near(
                "fraction of samples with q·kₐ < 0",
                float(negative.double().mean()),
                expected,
                within=4 * math.sqrt(expected * (1 - expected) / samples),
            ),
            above("RMS error of one head, q·kₐ > 0", positive_one, 0.5),
            below("RMS error of two heads, q·kₐ > 0", positive_two, 0.35 * positive_one),
            below(
                "RMS error of two heads, all samples",
                errors["two heads", "all samples"],
                0.6 * errors["one head", "all samples"],
            ),
        ],
        see_also=["attention/multi_head.py", "attention/attend.py", "recipes/projections.toml"],
    )


def _sampled_keys(means: Tensor, alpha: float, samples: int, *, seed: int) -> Tensor:
    """(b,n,d): keys around their means; the first also varies in length."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(samples, *means.shape, generator=generator, dtype=torch.float64)
    k = means + math.sqrt(alpha) * noise
    length = torch.randn(samples, 1, generator=generator, dtype=torch.float64)
    k[:, 0] += math.sqrt(0.5) * length * means[0]
    return k


def _outputs(queries: list[Tensor], k: Tensor, values: Tensor) -> Tensor:
    """(b,d): mean output over heads, one query per head."""
    q = torch.stack(queries) * math.sqrt(k.shape[-1])  # undoes the 1/√d of `attend`
    b, h = len(k), len(queries)
    heads_q = q[None, :, None].expand(b, -1, -1, -1)
    heads_k, heads_v = k[:, None].expand(-1, h, -1, -1), values.expand(b, h, -1, -1)
    return attend(heads_q, heads_k, heads_v).out[:, :, 0].mean(dim=1)
