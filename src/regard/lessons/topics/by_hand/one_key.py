"""Attention by hand: hard attention, copying one value, attention as the identity.

Shapes: n keys, d width. Scores are inner products without 1/√d (`lessons/unscaled_attention.py`).
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.kinds.dot import DotProduct
from regard.attention.kinds.hard import ArgmaxAttention
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
    below,
    equal,
    exercise,
    lesson,
    line_chart,
    max_difference,
    near,
    rounded_normal,
)
from regard.lessons.unscaled_attention import (
    attend_unscaled,
    mark_attention,
    separated_keys,
    subscripted,
    unscaled_scores,
    unscaled_weights,
)

KEYS = torch.tensor([[0, 1, 2], [1, 1, 2], [-1, 1, -2], [0, -1, -2]], dtype=torch.float64)
VALUES = torch.tensor([[3, 2, -4], [3, -2, 4], [3, 2, 0], [3, 2, 0]], dtype=torch.float64)
QUERY = torch.tensor([-2, 1, 1], dtype=torch.float64)
INPUTS = ("query", "keys", *subscripted(4, "v"))
"Inputs with respect to which gradients are taken."

NEAR_ONE = torch.tensor(
    [[0.47, 0.65, 0.60], [0.64, 0.50, -0.59], [-0.03, -0.48, -0.88], [0.43, -0.83, 0.35]],
    dtype=torch.float64,
)
"Four keys of length about 1, from a course exercise; several lessons use them."


@lesson("argmax-by-hand", topic="attention by hand", title="Argmax by hand")
def argmax_by_hand(*, beta: Annotated[float, Range(0.1, 20)] = 1) -> Lesson:
    """What does attention return when it takes the argmax key alone, and what can it learn?

    The scores are q·k = 3, 1, 1, −3, so the output is the first value, (3, 2, −4). A small change
    of q or of a key leaves the argmax unchanged, so their gradient is exactly zero: gradient
    descent can never learn where to attend; only the selected value gets a gradient. The softmax of
    the same scores has a gradient for all of them; scaled by a large β it saturates, approaches the
    argmax, and its gradient vanishes as well.
    """
    hard, soft = _forward_backward(ArgmaxAttention(), 1.0), _forward_backward(DotProduct(), beta)
    at_1, at_20 = (_forward_backward(DotProduct(), b) for b in (1.0, 20.0))
    scores = unscaled_scores(QUERY, KEYS)
    betas = [0.1 * 200 ** (step / 24) for step in range(25)]
    rows = [
        {
            "β": b,
            "gradient norm": _forward_backward(DotProduct(), b)[2][name],
            "with respect to": name,
        }
        for b in betas
        for name in ("query", "keys")
    ]
    per_key = zip(subscripted(4), scores.tolist(), hard[1].tolist(), soft[1].tolist(), strict=True)
    return Lesson(
        table=LessonTable(("key", "score", "argmax weight", "softmax weight at β"), list(per_key)),
        chart=line_chart(rows, x="β", y="gradient norm", series="with respect to", log="xy"),
        caption="Norm of the gradient through softmax(β · scores) with respect to query and keys: "
        "it vanishes as β grows and the softmax approaches an argmax, whose gradient is zero.",
        checks=[
            near("scores", scores, [3, 1, 1, -3], within=1e-12),
            equal("output of argmax", hard[0], VALUES[0]),
            equal("gradient norm of argmax, query", hard[2]["query"], 0.0),
            equal("gradient norm of argmax, keys", hard[2]["keys"], 0.0),
            equal(
                "values with a gradient under argmax",
                [name for name in subscripted(4, "v") if hard[2][name] > 0],
                ["v₁"],
            ),
            above("gradient norm of softmax, query, β = 1", at_1[2]["query"], 0.1),
            below("gradient norm of softmax, query, β = 20", at_20[2]["query"], 1e-12),
        ],
        see_also=[
            "attention/kinds/hard.py",
            "audits/unused_parameters.py",
            "recipes/dot-vs-additive.toml",
        ],
    )


def _forward_backward(
    function: ArgmaxAttention | DotProduct, beta: float
) -> tuple[Tensor, Tensor, dict[str, float]]:
    """Output, weights, and gradient norms of the output's sum of squares."""
    q, keys = QUERY.clone().requires_grad_(), KEYS.clone().requires_grad_()
    values = VALUES.clone().requires_grad_()
    found = attend_unscaled(beta * q, keys, values, function)
    gradients = torch.autograd.grad(
        found.out.square().sum(), (q, keys, values), allow_unused=True, materialize_grads=True
    )
    norms = [float(gradient.norm()) for gradient in (*gradients[:2], *gradients[2])]
    return found.out.detach(), found.weights.detach(), dict(zip(INPUTS, norms, strict=True))


@exercise("argmax-by-hand")
def argmax_exercise(seed: int) -> ExerciseSheet:
    keys, values = _integers(4, 3, seed=3 * seed), _integers(4, 3, seed=3 * seed + 1)
    q = _query_with_argmax(keys, seed)
    found = attend_unscaled(q, keys, values, ArgmaxAttention())

    def mark(answer: Answer) -> Mark:
        feedback = "The output is the value of the key with the largest q·k."
        return mark_attention(found._replace(out=answer["output"]), found.out, 1e-9, feedback)

    return ExerciseSheet(
        task="Hard attention returns the value of the key with the largest q·k. What is the "
        "output?",
        given={"q": q, "keys": keys, "values": values},
        slots=(Slot("output", (3,)),),
        mark=mark,
    )


def _query_with_argmax(keys: Tensor, seed: int) -> Tensor:
    """A query whose largest score is unique."""
    for extra in range(1, 1000):
        q = _integers(3, seed=3 * seed + 2 + 7919 * extra)
        best = unscaled_scores(q, keys).topk(2).values
        if best[0] > best[1] + 0.5:  # scores are integers up to rounding
            return q
    raise AssertionError("one query in a thousand almost surely has a unique largest score")


def _integers(*shape: int, seed: int) -> Tensor:
    """Random integers from −3 to 3."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).double()


@lesson("copying", topic="attention by hand")
def copying(
    *,
    beta: Annotated[float, Range(1, 200)] = 30,
    keys: Annotated[int, Range(2, 64)] = 6,
    width: Annotated[int, Range(2, 64)] = 8,
    seed: Seed = 0,
) -> Lesson:
    """Which query copies one value?

    A long query in the direction of one key, q = β·k_c. Among keys of length 1, k_c has the highest
    score, so the others get at most (n − 1)·e^(−β(1 − cos)) of the weight, cos being the cosine of
    the nearest other key to k_c: a longer query copies better, and a close neighbour requires a
    longer one. Direction alone selects only among keys of equal length: a key twice as long, at
    30°, takes all the weight.
    """
    k, v = separated_keys(keys, width, seed=seed), torch.eye(keys, dtype=torch.float64)
    nearest = float((k[1:] @ k[0]).max())
    found = attend_unscaled(beta * k[0], k, v)
    others, bound = 1 - float(found.weights[0]), (keys - 1) * math.exp(-beta * (1 - nearest))
    long_enough = 20 / (1 - nearest)
    copied = attend_unscaled(long_enough * k[0], k, v)
    orthogonal = k[1] - (k[1] @ k[0]) * k[0]
    direction = orthogonal / orthogonal.norm()
    long_key = 2 * (math.cos(math.pi / 6) * k[0] + math.sin(math.pi / 6) * direction)
    with_long_key = unscaled_weights(long_enough * k[0], torch.cat((k, long_key[None])))
    betas = [200 ** (step / 24) for step in range(25)]
    rows = [
        {"β": b, "weight on other keys": weight, "": name}
        for b in betas
        for name, weight in (
            ("measured", 1 - float(unscaled_weights(b * k[0], k)[0])),
            ("bound", (keys - 1) * math.exp(-b * (1 - nearest))),
        )
        if weight > 1e-15  # below: rounding errors of 1 − weight
    ]
    cosines, weights = (k @ k[0]).tolist(), found.weights.tolist()
    return Lesson(
        table=LessonTable(
            ("key", "cos to k₁", "weight"),
            list(zip(subscripted(keys), cosines, weights, strict=True))[:12],
        ),
        chart=line_chart(rows, x="β", y="weight on other keys", series="", log="xy"),
        caption="Weight that q = β·k₁ leaves on other keys, and the bound set by the nearest.",
        checks=[
            below("weight on other keys, against its bound", others, bound + 1e-15),
            near(f"copy at β = {long_enough:.3g}", copied.out, v[0], within=1e-6),
            above("weight on a key twice as long, at 30°", with_long_key[-1], 0.999),
        ],
        see_also=["attention/attend.py", "attention/kinds/dot.py", "recipes/bottleneck.toml"],
    )


@exercise("copying")
def copying_exercise(seed: int) -> ExerciseSheet:
    keys = torch.round(separated_keys(4, 3, seed=seed), decimals=2)
    values, target = rounded_normal(4, 3, seed=seed + 1), seed % 4

    def mark(answer: Answer) -> Mark:
        found = attend_unscaled(answer["q"], keys, values)
        feedback = f"Key {target + 1} has {float(found.weights[target]):.1%} of the weight."
        return mark_attention(found, values[target], 0.01, feedback)

    return ExerciseSheet(
        task=f"Find a query q such that softmax(K q)ᵀ V is value {target + 1}, within 0.01.",
        given={"keys": keys, "values": values},
        slots=(Slot("q", (3,)),),
        mark=mark,
    )


@lesson("select-and-identity", topic="attention by hand")
def select_and_identity(*, scale: Annotated[float, Range(1, 1e6)] = 1e5) -> Lesson:
    """Which queries return each value at its own position?

    Q = S·K with a large S: each row of K Kᵀ is largest on the diagonal when keys have similar
    lengths and different directions, and S turns the smallest margin (here 0.73) into a weight of
    1. Row i of Q alone selects value i; all rows together make attention the identity. S need not
    be exact: a few dozen suffice here, 100,000 is safe.
    """
    found = attend_unscaled(scale * NEAR_ONE, NEAR_ONE, VALUES)
    gram = NEAR_ONE @ NEAR_ONE.T
    eye = torch.eye(4, dtype=torch.float64)
    others = gram.masked_fill(eye.bool(), -math.inf)
    margin = float((gram.diagonal() - others.max(dim=1).values).min())
    bound, safe = math.exp(-scale * margin), attend_unscaled(1e5 * NEAR_ONE, NEAR_ONE, VALUES)
    rows = [
        {"factor S": s, "distance from the identity": distance}
        for s in (10 ** (step / 10) for step in range(21))
        if (distance := max_difference(unscaled_weights(s * NEAR_ONE, NEAR_ONE), eye)) > 1e-15
    ]
    return Lesson(
        table=LessonTable(
            ("query", *subscripted(4)),
            [(f"S·{k}", *w) for k, w in zip(subscripted(4), found.weights.tolist(), strict=True)],
        ),
        chart=line_chart(rows, x="factor S", y="distance from the identity", log="xy"),
        caption="Largest difference between the weights of Q = S·K and the identity.",
        checks=[
            near("smallest margin of a key over the others", margin, 0.7316, within=5e-5),
            below("weights minus identity", max_difference(found.weights, eye), 3 * bound),
            below("output minus values", max_difference(found.out, VALUES), 24 * bound + 1e-12),
            near("output at S = 100,000", safe.out, VALUES, within=1e-12),
        ],
        see_also=["attention/attend.py", "attention/kinds/hard.py", "recipes/bottleneck.toml"],
    )


@exercise("select-and-identity")
def select_exercise(seed: int) -> ExerciseSheet:
    keys = torch.round(separated_keys(4, 3, seed=seed), decimals=2)
    values = rounded_normal(4, 3, seed=seed + 1)
    order = torch.randperm(4, generator=torch.Generator().manual_seed(seed + 2))

    def mark(answer: Answer) -> Mark:
        found = attend_unscaled(answer["Q"], keys, values)
        feedback = "Darker cells have more weight: each query should have one dark key."
        return mark_attention(found, values[order], 0.01, feedback)

    targets = ", ".join(str(int(index) + 1) for index in order)
    return ExerciseSheet(
        task=f"Find queries Q, one per row, that return the values {targets}, in this order.",
        given={"keys": keys, "values": values},
        slots=(Slot("Q", (4, 3)),),
        mark=mark,
    )
