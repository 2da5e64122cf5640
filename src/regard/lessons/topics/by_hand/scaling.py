"""Why scores are divided by √d: unscaled, the softmax saturates as the head width grows.

    Var(q·k) = d        ∂w/∂s = diag(w) − wwᵀ → 0 as one weight goes to 1      Vaswani et al., 2017

Shapes: b queries, n keys, d head width.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from regard.attention.kinds.dot import DotProduct
from regard.lessons import Lesson, LessonTable, Range, Seed, above, below, lesson, line_chart, near
from regard.lessons.topics.cost.operation_counts import fit_exponent


@lesson("scaling", topic="attention by hand", title="Why scores are divided by √d")
def scaling(
    *,
    keys: Annotated[int, Range(16, 64)] = 32,
    queries: Annotated[int, Range(200, 400)] = 200,
    seed: Seed = 0,
) -> Lesson:
    """What goes wrong when q·k is not divided by √d?

    If the components of q and k are independent with mean 0 and variance 1, q·k is a sum of d
    products and has variance d. At d = 512 scores differ by dozens, the softmax saturates on one
    key, and its Jacobian diag(w) − wwᵀ is nearly zero: nothing is learned. Divided by √d, scores
    have variance 1 at every width, and weights and gradients no longer depend on it.
    """
    widths = [2 * 4**power for power in range(5)]
    found = {d: _scaled_and_unscaled(d, keys, queries, seed=seed) for d in widths}
    slope = fit_exponent(widths, [found[d]["q·k"].variance for d in widths])
    rows = [
        {"head width d": d, "gradient norm": one.gradient, "scores": name}
        for d in widths
        for name, one in found[d].items()
    ]
    wide = found[512]
    variances = torch.tensor([found[d]["q·k/√d"].variance for d in widths])
    return Lesson(
        table=LessonTable(
            ("d", "scores", "variance", "largest weight", "gradient norm"),
            [
                (d, name, one.variance, one.largest, one.gradient)
                for d in widths
                for name, one in found[d].items()
            ],
        ),
        chart=line_chart(rows, x="head width d", y="gradient norm", series="scores", log="xy"),
        caption="Median over queries of the norm of a gradient passed back through the softmax, "
        "against head width: without 1/√d it vanishes, with it it stays constant.",
        checks=[
            near("variance of q·k: exponent of d", slope, 1, within=0.05),
            near(
                "variance of q·k/√d, for each d",
                variances,
                torch.ones(len(widths)),
                within=5 * _standard_error_of_variance(widths[0], keys, queries),
            ),
            above("largest weight at d = 512, unscaled", wide["q·k"].largest, 0.85),
            below("largest weight at d = 512, scaled", wide["q·k/√d"].largest, 0.6),
            below(
                "gradient norm at d = 512, unscaled ÷ scaled",
                wide["q·k"].gradient / wide["q·k/√d"].gradient,
                0.05,
            ),
        ],
        see_also=["attention/kinds/dot.py", "recipes/dot-vs-additive.toml"],
    )


class Saturation(NamedTuple):
    """Softmax saturation: variance of scores, mean largest weight, median gradient norm."""

    variance: float
    largest: float
    gradient: float


def _scaled_and_unscaled(d: int, keys: int, queries: int, *, seed: int) -> dict[str, Saturation]:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(queries, 1, d, generator=generator, dtype=torch.float64)
    k = torch.randn(queries, keys, d, generator=generator, dtype=torch.float64)
    upstream = torch.randn(queries, keys, generator=generator, dtype=torch.float64)
    scores = DotProduct().scores(q, k)[:, 0]  # divided by √d
    return {
        "q·k": _saturation(math.sqrt(d) * scores, upstream),
        "q·k/√d": _saturation(scores, upstream),
    }


def _standard_error_of_variance(d: int, keys: int, queries: int) -> float:
    """|q|²/d has variance 2/d over queries, and all keys of a row share the query."""
    return math.sqrt(2 / d / queries + 2 * (1 + 2 / d) / (queries * keys))


def _saturation(scores: Tensor, upstream: Tensor) -> Saturation:
    scores = scores.clone().requires_grad_()
    weights = DotProduct().normalise(scores, torch.ones_like(scores, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(weights, scores, upstream)
    return Saturation(
        float(scores.detach().var()),
        float(weights.detach().max(dim=-1).values.mean()),
        float(gradient.norm(dim=-1).median()),
    )
