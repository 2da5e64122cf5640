"""Linear attention: the same product associated differently, and its distance from softmax.

    (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V)                              Katharopoulos et al., 2020

Shapes: n positions, d head width, f features. Masks: True = may attend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated

import torch

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction, AttentionOutput, HeadShape
from regard.attention.kinds.dot import DotProduct
from regard.attention.kinds.linear import LinearAttention
from regard.attention.masks.mask import causal
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
    equal,
    exercise,
    lesson,
    line_chart,
    max_difference,
    near,
    standard_normal,
)
from regard.lessons.topics.cost.operation_counts import count_operations, fit_exponent, min_seconds
from regard.lessons.unscaled_attention import attend_sequence, subscripted

LENGTHS = [64, 128, 256, 512, 1024]
STDS = [0.25, 0.5, 1.0]
"Standard deviations of the components of queries and keys."
DRAWS = 3
"Random feature maps over which errors are averaged."
QUADRATIC, QUADRATIC_CAUSAL = "(φ(Q)φ(K)ᵀ)V", "(φ(Q)φ(K)ᵀ)V, causal"
LINEAR, LINEAR_CAUSAL = "φ(Q)(φ(K)ᵀV)", "φ(Q)(φ(K)ᵀV), causal"


@lesson(
    "linear-attention", topic="kinds and cost", title="Linear attention: reordering the products"
)
def linear_attention(*, width: Annotated[int, Range(4, 32)] = 16, seed: Seed = 0) -> Lesson:
    """How can attention cost O(n) instead of O(n²) with an unchanged output?

    If a score is an inner product of features, φ(q)·φ(k), then (φ(Q)φ(K)ᵀ)V = φ(Q)(φ(K)ᵀV):
    matrix products are associative. The first order forms an n × n matrix, the second an f × d
    matrix, whose size does not depend on n; the denominators are one more column. With a causal
    mask the sum over keys becomes a cumulative sum, and the output is again the same. A softmax
    cannot be rewritten like this, since e^(q·k) is not an inner product of finitely many features.

    Linear attention is not always cheaper: with f = d features both orders cost the same at
    n = d + 1, and for shorter sequences the linear order costs more.
    """
    function = _function("elu", width)
    runs = {n: _runs(function, n, width, seed=seed) for n in LENGTHS}
    counts = {
        order: [count_operations(runs[n][order]).token_mixing for n in LENGTHS]
        for order in (QUADRATIC, LINEAR, LINEAR_CAUSAL)
    }
    n, d = LENGTHS[1], width
    outputs = {order: run().out for order, run in runs[n].items()}
    break_even = {
        order: count_operations(run).token_mixing
        for order, run in _runs(function, d + 1, d, seed=seed).items()
    }
    rows = [
        {"length n": n, "seconds": min_seconds(runs[n][order]), "order": order}
        for order in counts
        for n in LENGTHS
    ]
    return Lesson(
        table=LessonTable(
            ("length", *(f"FLOPs, {order}" for order in counts)),
            [(n, *(counts[order][i] for order in counts)) for i, n in enumerate(LENGTHS)],
        ),
        chart=line_chart(rows, x="length n", y="seconds", series="order", log="xy"),
        caption="Time on this machine against sequence length; FLOPs are in the table.",
        checks=[
            near("outputs of the two orders", outputs[LINEAR], outputs[QUADRATIC], within=1e-9),
            near(
                "outputs of the two orders, causal",
                outputs[LINEAR_CAUSAL],
                outputs[QUADRATIC_CAUSAL],
                within=1e-9,
            ),
            equal(
                "FLOPs, quadratic order: 2n²(f + d)",
                counts[QUADRATIC],
                [4 * d * n**2 for n in LENGTHS],
            ),
            equal(
                "FLOPs, linear order: 4nf(d + 1)",
                counts[LINEAR],
                [4 * d * (d + 1) * n for n in LENGTHS],
            ),
            near(
                "exponent of n: quadratic, linear, linear causal",
                [fit_exponent(LENGTHS, counts[order]) for order in counts],
                [2, 1, 1],
                within=1e-9,
            ),
            equal(
                f"FLOPs at n = d + 1 = {d + 1}, linear order",
                break_even[LINEAR],
                break_even[QUADRATIC],
            ),
        ],
        see_also=["attention/kinds/linear.py", "attention/attend.py", "recipes/lengths.toml"],
    )


def _function(
    feature_map: str, width: int, *, features: int = 0, seed: int = 0
) -> AttentionFunction:
    kind = LinearAttention.model_validate(
        {"feature_map": feature_map, "features": features, "seed": seed}
    )
    return kind.build(HeadShape(width, heads=1)).double()


def _runs(
    function: AttentionFunction, n: int, width: int, *, seed: int
) -> dict[str, Callable[[], AttentionOutput]]:
    """The same attention in each order, as callables."""
    q, k, v = standard_normal(3, 1, 1, n, width, seed=seed)
    run = partial(attend, q, k, v, function=function)
    # Needing the weights forces the explicit path, which forms the n × n matrix.
    return {
        QUADRATIC: partial(run, need_weights=True),
        QUADRATIC_CAUSAL: partial(run, mask=causal(), need_weights=True),
        LINEAR: run,
        LINEAR_CAUSAL: partial(run, mask=causal()),
    }


@exercise("linear-attention")
def linear_attention_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randint(0, 6, (2, 4, 2), generator=generator, dtype=torch.float64)
    keys[0] += 1  # no query has a zero denominator
    queries = torch.randint(1, 9, (20, 2), generator=generator, dtype=torch.float64)
    found = attend_sequence(queries, keys, values, function=_function("relu", 2))

    def mark(answer: Answer) -> Mark:
        out = queries @ answer["S"] / (queries @ answer["z"])[:, None]
        error = max_difference(out, found.out)
        feedback = f"Largest error of φ(q)S / φ(q)·z over 20 queries: {error:.2g}."
        return Mark(error, 0.01, feedback, Heatmap(["q"], subscripted(4), found.weights[:1]))

    return ExerciseSheet(
        task="Linear attention with φ(x) = max(x, 0) compresses all keys and values into a matrix "
        "S and a vector z, such that its output is φ(q)S / φ(q)·z for any query q. Give S (2 × 2) "
        "and z for these four keys and values; 20 queries are tested.",
        given={"keys": keys, "values": values},
        slots=(Slot("S", (2, 2)), Slot("z", (2,))),
        mark=mark,
    )


@lesson(
    "linear-approximation",
    topic="kinds and cost",
    title="Does linear attention approximate softmax?",
)
def linear_approximation(*, width: Annotated[int, Range(4, 16)] = 8, seed: Seed = 0) -> Lesson:
    """How well does linear attention approximate softmax attention?

    Random features satisfy E[φ(q)·φ(k)] = e^(q·k/√d), so attention with f of them converges to
    softmax attention, with an error that falls as 1/√f. That is often quoted, and it holds for
    short queries and keys. But the mean of exponentials is dominated by rare large samples: with
    components of standard std 1, as at initialisation, 4d features are hardly better than
    none, and 64 times as many still have a large error. The feature maps elu + 1 and relu define
    attention functions of their own rather than approximations: their distance from softmax is
    fixed, and models are trained with them.
    """
    features = [width * 4**power for power in range(5)]
    random = {std: [_random_error(f, width, std, seed=seed) for f in features] for std in STDS}
    fixed = {
        (name, std): _error(_function(name, width), width, std, seed=seed)
        for name in ("elu", "relu")
        for std in STDS
    }
    short, long = random[STDS[0]], random[STDS[-1]]
    return Lesson(
        table=LessonTable(
            ("feature map", "features", *(f"error, σ = {std:g}" for std in STDS)),
            [
                *(
                    ("random", f, *(random[std][i] for std in random))
                    for i, f in enumerate(features)
                ),
                *((name, width, *(fixed[name, std] for std in random)) for name in ("elu", "relu")),
            ],
        ),
        chart=line_chart(
            [
                {"features f": f, "error": error, "": f"random, σ = {std:g}"}
                for std, errors in random.items()
                for f, error in zip(features, errors, strict=True)
            ],
            x="features f",
            y="error",
            series="",
            log="xy",
        ),
        caption="Relative error of the output against softmax attention, by the number of random "
        "features; σ is the standard std of the components of queries and keys.",
        checks=[
            near(
                "exponent of f in the error, σ = 0.25",
                fit_exponent(features, short),
                -0.5,
                within=0.2,
            ),
            below("error with most features, σ = 0.25", short[-1], 0.05),
            below("that error ÷ error of elu + 1", short[-1] / fixed["elu", STDS[0]], 0.5),
            above("error with 4d features, σ = 1", long[1], 0.25),
            above("exponent of f in the error, σ = 1", fit_exponent(features, long), -0.35),
        ],
        see_also=["attention/feature_maps.py", "attention/kinds/linear.py", "recipes/lengths.toml"],
    )


def _random_error(features: int, width: int, std: float, *, seed: int) -> float:
    errors = [
        _error(_function("random", width, features=features, seed=draw), width, std, seed=seed)
        for draw in range(DRAWS)
    ]
    return math.sqrt(sum(error**2 for error in errors) / DRAWS)


@torch.no_grad()
def _error(function: AttentionFunction, width: int, std: float, *, seed: int) -> float:
    """Relative error for 32 queries and 32 keys with components of this standard deviation."""
    q, k, v = standard_normal(3, 1, 1, 32, width, seed=seed)
    exact, found = (
        attend(std * q, std * k, v, function=each).out for each in (DotProduct(), function)
    )
    return float((found - exact).norm() / exact.norm())
