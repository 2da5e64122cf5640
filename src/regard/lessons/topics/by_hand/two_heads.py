"""Why two heads keep the average of two values when a key varies in length, and one does not.

    k_a ~ N(μ_a, αI + ½μ_a μ_aᵀ)        one head: q = β(μ_a + μ_b)        two: βμ_a and βμ_b

Shapes: b samples, n keys, d width. Scores are plain inner products, as on paper.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.lessons.lesson import Lesson, LessonTable, above, below, near
from regard.lessons.lesson_charts import bars
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson


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
        for which, chosen in (("all samples", turned | ~turned), ("q·kₐ > 0", ~turned))
    }
    rows = [
        {"samples": which, "spread": size, "heads": heads}
        for (heads, which), size in spreads.items()
    ]
    kept_one, kept_two = spreads["one head", "q·kₐ > 0"], spreads["two heads", "q·kₐ > 0"]
    return Lesson(
        table=LessonTable(
            ("heads", "spread, all samples", "spread, q·kₐ > 0"),
            [
                (heads, spreads[heads, "all samples"], spreads[heads, "q·kₐ > 0"])
                for heads in ("one head", "two heads")
            ],
        ),
        chart=bars(rows, name="samples", value="spread", series="heads"),
        caption="Spread of the output: root mean square distance from ½(v_a + v_b), with the "
        "samples whose key points backwards and without them.",
        checks=[
            near(
                "share of samples with q·kₐ < 0",
                share,
                expected,
                within=4 * math.sqrt(expected * (1 - expected) / samples),
            ),
            above("spread of one head, q·kₐ > 0", kept_one, 0.5),
            below("spread of two heads, q·kₐ > 0", kept_two, 0.35 * kept_one),
            below(
                "spread of two heads, all samples",
                spreads["two heads", "all samples"],
                0.6 * spreads["one head", "all samples"],
            ),
        ],
        see=["attention/multi_head.py", "attention/attend.py", "recipes/projections.toml"],
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
