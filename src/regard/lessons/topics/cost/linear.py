"""Linear attention: the same product in another order, and how near it comes to a softmax.

    (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V)                              Katharopoulos et al., 2020

Shapes: n places, d head width, f features. Masks: True = may attend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import AttentionOutput, attend
from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds.dot import DotProduct
from regard.attention.kinds.linear import FeatureAttention, LinearAttention
from regard.attention.masks.mask import causal
from regard.lessons.by_hand import names
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, Weights, exercise, far
from regard.lessons.lesson import Lesson, LessonTable, above, below, equal, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.lessons.topics.cost.counted import exponent, operations, seconds

LENGTHS = [64, 128, 256, 512, 1024]
DEVIATIONS = [0.25, 0.5, 1.0]
"Of the parts of queries and keys."
DRAWS = 3
"Of random features, over which errors are averaged."
ALL_PAIRS, ALL_PAIRS_CAUSAL = "all pairs first", "all pairs first, causal"
SUMS, SUMS_CAUSAL = "sums first", "sums first, causal"


@lesson("linear-attention", topic="kinds and cost", title="Linear attention: the other order")
def linear_attention(*, width: Annotated[int, Range(4, 32)] = 16, seed: Seed = 0) -> Lesson:
    """How can attention cost n instead of n², and change nothing?

    If a score is a product of features, φ(q)·φ(k), then (φ(Q)φ(K)ᵀ)V = φ(Q)(φ(K)ᵀV): matrix
    products may be taken in either order. The first makes a table of n × n, the second one of
    f × d, which does not grow with n; the weights' sums come along as one more column. With a
    causal mask the sum runs along the row, and the result is again the same. A softmax has no such
    rewriting, since e^(q·k) is no finite product of features.

    It is not cheaper always: with as many features as the head is wide, both orders cost the same
    at n = d + 1, and below that the rewriting costs more.
    """
    rule = _rule("elu", width)
    runs = {n: _runs(rule, n, width, seed=seed) for n in LENGTHS}
    counts = {
        way: [operations(runs[n][way]).meeting for n in LENGTHS]
        for way in (ALL_PAIRS, SUMS, SUMS_CAUSAL)
    }
    n, d = LENGTHS[1], width
    outs = {way: run().out for way, run in runs[n].items()}
    even = {way: operations(run).meeting for way, run in _runs(rule, d + 1, d, seed=seed).items()}
    rows = [
        {"places n": n, "seconds": seconds(runs[n][way]), "order": way}
        for way in counts
        for n in LENGTHS
    ]
    return Lesson(
        table=LessonTable(
            ("places", *(f"operations, {way}" for way in counts)),
            [(n, *(counts[way][i] for way in counts)) for i, n in enumerate(LENGTHS)],
        ),
        chart=curves(rows, x="places n", y="seconds", series="order", log="xy"),
        caption="Time on this machine against the length; the operations are in the table.",
        checks=[
            near("output, both orders", outs[SUMS], outs[ALL_PAIRS], within=1e-9),
            near(
                "output, both orders, causal",
                outs[SUMS_CAUSAL],
                outs[ALL_PAIRS_CAUSAL],
                within=1e-9,
            ),
            equal(
                "operations, all pairs: 2n²(f + d)",
                counts[ALL_PAIRS],
                [4 * d * n**2 for n in LENGTHS],
            ),
            equal(
                "operations, sums: 4nf(d + 1)", counts[SUMS], [4 * d * (d + 1) * n for n in LENGTHS]
            ),
            near(
                "growth with n: all pairs, sums, sums causal",
                [exponent(LENGTHS, counts[way]) for way in counts],
                [2, 1, 1],
                within=1e-9,
            ),
            equal(f"operations at n = d + 1 = {d + 1}, sums", even[SUMS], even[ALL_PAIRS]),
        ],
        see=["attention/kinds/linear.py", "attention/attend.py", "recipes/lengths.toml"],
    )


def _rule(feature_map: str, width: int, *, features: int = 0, seed: int = 0) -> FeatureAttention:
    kind = LinearAttention.model_validate(
        {"feature_map": feature_map, "features": features, "seed": seed}
    )
    rule = kind.build(HeadShape(width, heads=1)).double()
    assert isinstance(rule, FeatureAttention)
    return rule


def _runs(
    rule: AttentionFunction, n: int, width: int, *, seed: int
) -> dict[str, Callable[[], AttentionOutput]]:
    """The same attention in each order, ready to run."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 1, 1, n, width, generator=generator, dtype=torch.float64)
    run = partial(attend, q, k, v, rule=rule)
    # With every weight asked for, it goes the readable way, over all pairs.
    return {
        ALL_PAIRS: partial(run, want_weights=True),
        ALL_PAIRS_CAUSAL: partial(run, mask=causal(), want_weights=True),
        SUMS: run,
        SUMS_CAUSAL: partial(run, mask=causal()),
    }


@exercise("linear-attention")
def linear_attention_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randint(0, 6, (2, 4, 2), generator=generator, dtype=torch.float64)
    keys[0] += 1  # so that no query meets nought
    queries = torch.randint(1, 9, (20, 2), generator=generator, dtype=torch.float64)
    found = attend(
        queries[None, None],
        keys[None, None],
        values[None, None],
        rule=_rule("relu", 2),
        want_weights=True,
    )
    assert found.weights is not None
    weights = found.weights[0, 0]

    def mark(answer: Answer) -> Mark:
        out = queries @ answer["S"] / (queries @ answer["z"])[:, None]
        missed = far(out, found.out[0, 0])
        says = f"Over 20 queries φ(q)S / φ(q)·z is off by at most {missed:.2g}."
        return Mark(missed, 0.01, says, Weights(["q"], names(4), weights[:1]))

    return ExerciseSheet(
        task="Linear attention with φ(x) = max(x, 0) keeps of all keys and values only a matrix S "
        "and a vector z, so that its output is φ(q)S / φ(q)·z for any query q. Give S (2 × 2) and "
        "z for these four keys and values; 20 queries are tried.",
        given={"keys": keys, "values": values},
        slots=(Slot("S", (2, 2)), Slot("z", (2,))),
        mark=mark,
    )


@lesson("linear-approximation", topic="kinds and cost", title="Is linear attention a softmax?")
def linear_approximation(*, width: Annotated[int, Range(4, 16)] = 8, seed: Seed = 0) -> Lesson:
    """How near does linear attention come to softmax attention?

    Random features have φ(q)·φ(k) = e^(q·k/√d) on average, so that attention by f of them comes as
    near to a softmax as one likes, the error falling as 1/√f. That is often quoted, and it holds
    for short queries and keys. The mean of such exponentials rests on rare large ones: with parts
    of deviation 1, as at the start of training, 4d features are hardly nearer than none, and 64
    times as many still miss. elu + 1 and relu are attentions of their own rather than
    approximations: their distance from the softmax stays, and models are trained with them.
    """
    features = [width * 4**power for power in range(5)]
    random = {
        size: [_random_error(f, width, size, seed=seed) for f in features] for size in DEVIATIONS
    }
    fixed = {
        (name, size): _error(_rule(name, width), width, size, seed=seed)
        for name in ("elu", "relu")
        for size in DEVIATIONS
    }
    short, usual = random[DEVIATIONS[0]], random[DEVIATIONS[-1]]
    return Lesson(
        table=LessonTable(
            ("features", "how many", *(f"error, parts of {size:g}" for size in DEVIATIONS)),
            [
                *(
                    ("random", f, *(random[size][i] for size in random))
                    for i, f in enumerate(features)
                ),
                *(
                    (name, width, *(fixed[name, size] for size in random))
                    for name in ("elu", "relu")
                ),
            ],
        ),
        chart=curves(
            [
                {"features f": f, "error": error, "": f"random, parts of {size:g}"}
                for size, errors in random.items()
                for f, error in zip(features, errors, strict=True)
            ],
            x="features f",
            y="error",
            series="",
            log="xy",
        ),
        caption="Distance of the output from that of softmax attention, relative to the softmax's "
        "own size, against the number of random features; parts of queries and keys have the "
        "deviation named.",
        checks=[
            near(
                "growth of the error with f, parts of 0.25",
                exponent(features, short),
                -0.5,
                within=0.2,
            ),
            below("error of the most features, parts of 0.25", short[-1], 0.05),
            below("the same against elu + 1", short[-1] / fixed["elu", DEVIATIONS[0]], 0.5),
            above("error of 4d features, parts of 1", usual[1], 0.25),
            above("growth of the error with f, parts of 1", exponent(features, usual), -0.35),
        ],
        see=["attention/feature_maps.py", "attention/kinds/linear.py", "recipes/lengths.toml"],
    )


def _random_error(features: int, width: int, deviation: float, *, seed: int) -> float:
    errors = [
        _error(_rule("random", width, features=features, seed=draw), width, deviation, seed=seed)
        for draw in range(DRAWS)
    ]
    return math.sqrt(sum(error**2 for error in errors) / DRAWS)


@torch.no_grad()
def _error(rule: AttentionFunction, width: int, deviation: float, *, seed: int) -> float:
    """Of 32 queries over 32 keys, whose parts have this deviation."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 1, 1, 32, width, generator=generator, dtype=torch.float64)
    q, k = deviation * q, deviation * k
    exact: Tensor = attend(q, k, v, rule=DotProduct()).out
    return float((attend(q, k, v, rule=rule).out - exact).norm() / exact.norm())
