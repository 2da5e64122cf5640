"""Why scores are divided by √d: without it the softmax saturates as heads grow wider.

    Var(q·k) = d        ∂w/∂s = diag(w) − wwᵀ → 0 as one weight goes to 1      Vaswani et al., 2017

Shapes: b queries, n keys, d head width.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from regard.attention.kinds.dot import DotProduct
from regard.lessons.lesson import Lesson, LessonTable, above, below, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.lessons.topics.cost.counted import exponent


@lesson("scaling", topic="attention by hand", title="Why scores are divided by √d")
def scaling(
    *,
    keys: Annotated[int, Range(16, 64)] = 32,
    queries: Annotated[int, Range(200, 400)] = 200,
    seed: Seed = 0,
) -> Lesson:
    """What goes wrong when q·k is not divided by √d?

    If the parts of q and k are independent with variance 1, q·k is a sum of d such products and
    has variance d. At d = 512 scores differ by dozens, the softmax puts nearly all weight on one
    key, and its derivative diag(w) − wwᵀ is nearly zero: nothing is learnt. Divided by √d the
    scores have variance 1 at every width, and weights and gradients no longer depend on it.
    """
    widths = [2 * 4**power for power in range(5)]
    found = {d: _scaled_and_not(d, keys, queries, seed=seed) for d in widths}
    slope = exponent(widths, [found[d]["q·k"].variance for d in widths])
    rows = [
        {"head width d": d, "gradient of the softmax": one.gradient, "scores": name}
        for d in widths
        for name, one in found[d].items()
    ]
    wide = found[512]
    variances = torch.tensor([found[d]["q·k/√d"].variance for d in widths])
    return Lesson(
        table=LessonTable(
            ("d", "scores", "variance", "largest weight", "gradient"),
            [
                (d, name, one.variance, one.largest, one.gradient)
                for d in widths
                for name, one in found[d].items()
            ],
        ),
        chart=curves(
            rows, x="head width d", y="gradient of the softmax", series="scores", log="xy"
        ),
        caption="What the softmax passes on of a gradient, for the median query, against the "
        "head's width: without the root it fades, with it it stays.",
        checks=[
            near("growth of the variance of q·k, as a power of d", slope, 1, within=0.05),
            near(
                "variance of q·k/√d, at every d",
                variances,
                torch.ones(len(widths)),
                within=5 * _error_of_variance(widths[0], keys, queries),
            ),
            above("largest weight at d = 512, not scaled", wide["q·k"].largest, 0.85),
            below("largest weight at d = 512, scaled", wide["q·k/√d"].largest, 0.6),
            below(
                "gradient at d = 512, not scaled against scaled",
                wide["q·k"].gradient / wide["q·k/√d"].gradient,
                0.05,
            ),
        ],
        see=["attention/kinds/dot.py", "recipes/dot-vs-additive.toml"],
    )


class Saturation(NamedTuple):
    """How peaked weights are: variance of scores, mean largest weight, median gradient."""

    variance: float
    largest: float
    gradient: float


def _scaled_and_not(d: int, keys: int, queries: int, *, seed: int) -> dict[str, Saturation]:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(queries, 1, d, generator=generator, dtype=torch.float64)
    k = torch.randn(queries, keys, d, generator=generator, dtype=torch.float64)
    probe = torch.randn(queries, keys, generator=generator, dtype=torch.float64)
    scores = DotProduct().scores(q, k)[:, 0]  # divided by √d
    return {
        "q·k": _saturation(math.sqrt(d) * scores, probe),
        "q·k/√d": _saturation(scores, probe),
    }


def _error_of_variance(d: int, keys: int, queries: int) -> float:
    """Its standard error: |q|²/d varies by 2/d from query to query, and keys share a query."""
    return math.sqrt(2 / d / queries + 2 * (1 + 2 / d) / (queries * keys))


def _saturation(scores: Tensor, probe: Tensor) -> Saturation:
    scores = scores.clone().requires_grad_()
    weights = DotProduct().normalise(scores, torch.ones_like(scores, dtype=torch.bool))
    (passed_on,) = torch.autograd.grad(weights, scores, probe)
    return Saturation(
        float(scores.detach().var()),
        float(weights.detach().max(dim=-1).values.mean()),
        float(passed_on.norm(dim=-1).median()),
    )
