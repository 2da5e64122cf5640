"""Attention by hand, one key at a time: taking the best, copying a value, copying each.

Shapes: n keys, d width. Scores are plain inner products, as on paper (`lessons/by_hand.py`).
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.kinds.dot import DotProduct
from regard.attention.kinds.hard import BestKey
from regard.lessons.by_hand import look_up, names, scores_of, spread_keys, weights_of
from regard.lessons.exercise import (
    Answer,
    ExerciseSheet,
    Mark,
    Slot,
    Weights,
    exercise,
    far,
    numbers,
)
from regard.lessons.lesson import Lesson, LessonTable, above, below, equal, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson

KEYS = torch.tensor([[0, 1, 2], [1, 1, 2], [-1, 1, -2], [0, -1, -2]], dtype=torch.float64)
VALUES = torch.tensor([[3, 2, -4], [3, -2, 4], [3, 2, 0], [3, 2, 0]], dtype=torch.float64)
QUERY = torch.tensor([-2, 1, 1], dtype=torch.float64)
LEARN = ("query", "keys", *names(4, "v"))
"What a gradient may reach."

NEAR_ONE = torch.tensor(
    [[0.47, 0.65, 0.60], [0.64, 0.50, -0.59], [-0.03, -0.48, -0.88], [0.43, -0.83, 0.35]],
    dtype=torch.float64,
)
"Four keys of length about 1, as a course gives them; several lessons use them."


@lesson("argmax-by-hand", topic="attention by hand", title="Argmax by hand")
def argmax_by_hand(*, beta: Annotated[float, Range(0.1, 20)] = 1) -> Lesson:
    """What does attention give that takes the best key alone, and what can it learn?

    The scores are q·k = 3, 1, 1, −3, so the first value comes out: (3, 2, −4). A small change of q
    or of a key changes no argmax, so their gradient is exactly zero, and gradient descent can never
    teach them where to look; only the value taken learns. The softmax of the same scores gives all
    of them a gradient; but times a large β it becomes an argmax, and its gradient fades as well.
    """
    hard, soft = _outcome(BestKey(), 1.0), _outcome(DotProduct(), beta)
    at_1, at_20 = _outcome(DotProduct(), 1.0), _outcome(DotProduct(), 20.0)
    scores = scores_of(QUERY, KEYS)
    betas = [0.1 * 200 ** (step / 24) for step in range(25)]
    rows = [
        {"β": b, "length of the gradient": _outcome(DotProduct(), b)[2][name], "to": name}
        for b in betas
        for name in ("query", "keys")
    ]
    per_key = zip(names(4), scores.tolist(), hard[1].tolist(), soft[1].tolist(), strict=True)
    return Lesson(
        table=LessonTable(("key", "score", "argmax weight", "softmax weight at β"), list(per_key)),
        chart=curves(rows, x="β", y="length of the gradient", series="to", log="xy"),
        caption="The gradient of softmax(β · scores) to query and keys, by its length: it fades as "
        "β grows and the softmax becomes an argmax, whose gradient is 0 everywhere.",
        checks=[
            near("scores", scores, [3, 1, 1, -3], within=1e-12),
            equal("output of argmax", hard[0], VALUES[0]),
            equal("gradient of argmax to q", hard[2]["query"], 0.0),
            equal("gradient of argmax to the keys", hard[2]["keys"], 0.0),
            equal(
                "values that argmax gives a gradient",
                [name for name in names(4, "v") if hard[2][name] > 0],
                ["v₁"],
            ),
            above("gradient of softmax to q, at β = 1", at_1[2]["query"], 0.1),
            below("the same at β = 20", at_20[2]["query"], 1e-12),
        ],
        see=["attention/kinds/hard.py", "audits/reach.py", "recipes/dot-vs-additive.toml"],
    )


def _outcome(rule: BestKey | DotProduct, beta: float) -> tuple[Tensor, Tensor, dict[str, float]]:
    """Output, weights, and the lengths of the gradients of the output's sum of squares."""
    q, keys = QUERY.clone().requires_grad_(), KEYS.clone().requires_grad_()
    values = VALUES.clone().requires_grad_()
    found = look_up(beta * q, keys, values, rule)
    assert found.weights is not None
    gradients = torch.autograd.grad(
        found.out.square().sum(), (q, keys, values), allow_unused=True, materialize_grads=True
    )
    lengths = [float(one.norm()) for one in (*gradients[:2], *gradients[2])]
    return found.out.detach(), found.weights.detach(), dict(zip(LEARN, lengths, strict=True))


@exercise("argmax-by-hand")
def argmax_exercise(seed: int) -> ExerciseSheet:
    keys, values, q = _whole(4, 3, seed=3 * seed), _whole(4, 3, seed=3 * seed + 1), None
    for extra in range(1, 1000):  # another query where two keys share the first place
        q = _whole(3, seed=3 * seed + 2 + 7919 * extra)
        best = scores_of(q, keys).topk(2).values
        if best[0] > best[1] + 0.5:  # scores are whole numbers, but for rounding
            break
    assert q is not None
    found = look_up(q, keys, values, BestKey())

    def mark(answer: Answer) -> Mark:
        says = "The output is the value of the key with the largest q·k."
        drawn = Weights(["q"], names(4), weights_of(q, keys, BestKey())[None])
        return Mark(far(answer["output"], found.out), 1e-9, says, drawn)

    return ExerciseSheet(
        task="Attention takes the value of the key with the largest q·k. What is its output?",
        given={"q": q, "keys": keys, "values": values},
        slots=(Slot("output", (3,)),),
        mark=mark,
    )


def _whole(*shape: int, seed: int) -> Tensor:
    """Whole numbers from −3 to 3."""
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

    A query far along one key, q = β·k_c. Among keys of length 1 no other scores as much as k_c
    itself, so the others keep at most (n − 1)·e^(−β(1 − cos)) of the weight, cos being that of the
    nearest other key: a longer query copies better, and a near neighbour costs length. It is the
    direction that chooses, and only among keys of one length: a key twice as long, 30° aside, takes
    it all.
    """
    k, v = spread_keys(keys, width, seed=seed), torch.eye(keys, dtype=torch.float64)
    nearest = float((k[1:] @ k[0]).max())
    found = look_up(beta * k[0], k, v)
    assert found.weights is not None
    rest, bound = 1 - float(found.weights[0]), (keys - 1) * math.exp(-beta * (1 - nearest))
    long_enough = 20 / (1 - nearest)
    copied = look_up(long_enough * k[0], k, v)
    aside = k[1] - (k[1] @ k[0]) * k[0]
    thief = 2 * (math.cos(math.pi / 6) * k[0] + math.sin(math.pi / 6) * aside / aside.norm())
    stolen = weights_of(long_enough * k[0], torch.cat((k, thief[None])))
    betas = [200 ** (step / 24) for step in range(25)]
    rows = [
        {"β": b, "weight on other keys": size, "": what}
        for b in betas
        for what, size in (
            ("measured", 1 - float(weights_of(b * k[0], k)[0])),
            ("bound", (keys - 1) * math.exp(-b * (1 - nearest))),
        )
        if size > 1e-15  # below, 1 − weight is rounding
    ]
    cosines = (k @ k[0]).tolist()
    return Lesson(
        table=LessonTable(
            ("key", "cos to k₁", "weight"),
            list(zip(names(keys), cosines, found.weights.tolist(), strict=True))[:12],
        ),
        chart=curves(rows, x="β", y="weight on other keys", series="", log="xy"),
        caption="What q = β·k₁ leaves to other keys, and the bound that the nearest of them sets.",
        checks=[
            below("weight on other keys, against its bound", rest, bound + 1e-15),
            near(f"copy at β = {long_enough:.3g}", copied.out, v[0], within=1e-6),
            above("weight on a key twice as long, 30° aside", stolen[-1], 0.999),
        ],
        see=["attention/attend.py", "attention/kinds/dot.py", "recipes/bottleneck.toml"],
    )


@exercise("copying")
def copying_exercise(seed: int) -> ExerciseSheet:
    keys = torch.round(spread_keys(4, 3, seed=seed), decimals=2)
    values, chosen = numbers(4, 3, seed=seed + 1), seed % 4

    def mark(answer: Answer) -> Mark:
        found = look_up(answer["q"], keys, values)
        assert found.weights is not None
        held = float(found.weights[chosen])
        says = f"Key {chosen + 1} holds {held:.1%} of the weight."
        drawn = Weights(["q"], names(4), found.weights[None])
        return Mark(far(found.out, values[chosen]), 0.01, says, drawn)

    return ExerciseSheet(
        task=f"Find a query q with which softmax(K q)ᵀ V is value {chosen + 1}, within 0.01.",
        given={"keys": keys, "values": values},
        slots=(Slot("q", (3,)),),
        mark=mark,
    )


@lesson("select-and-identity", topic="attention by hand")
def select_and_identity(*, scale: Annotated[float, Range(1, 1e6)] = 1e5) -> Lesson:
    """Which queries return every value in its own place?

    Q = S·K with a large S: each row of K Kᵀ is largest on the diagonal when keys are about equally
    long and point in different directions, and S turns the smallest lead (here 0.73) into a weight
    of 1. Row i of Q alone selects value i; all rows together make attention the identity. S needs
    no exact value: some dozens suffice here, 100,000 is merely safe.
    """
    values = VALUES
    found = look_up(scale * NEAR_ONE, NEAR_ONE, values)
    assert found.weights is not None
    gram = NEAR_ONE @ NEAR_ONE.T
    eye = torch.eye(4, dtype=torch.float64)
    others = gram.masked_fill(eye.bool(), -math.inf)
    lead = float((gram.diagonal() - others.max(dim=1).values).min())
    left, safe = math.exp(-scale * lead), look_up(1e5 * NEAR_ONE, NEAR_ONE, values)
    rows = [
        {"factor S": s, "distance from the identity": distance}
        for s in (10 ** (step / 10) for step in range(21))
        if (distance := float((weights_of(s * NEAR_ONE, NEAR_ONE) - eye).abs().max())) > 1e-15
    ]
    weights = found.weights.tolist()
    return Lesson(
        table=LessonTable(
            ("query", *names(4)),
            [(f"S·{k}", *w) for k, w in zip(names(4), weights, strict=True)],
        ),
        chart=curves(rows, x="factor S", y="distance from the identity", log="xy"),
        caption="The largest difference between the weights of Q = S·K and the identity.",
        checks=[
            near("smallest lead of a key over the others", lead, 0.7316, within=5e-5),
            below("weights, from the identity", far(found.weights, eye), 3 * left),
            below("output, from the values", far(found.out, values), 24 * left + 1e-12),
            near("output at S = 100,000", safe.out, values, within=1e-12),
        ],
        see=["attention/attend.py", "attention/kinds/hard.py", "recipes/bottleneck.toml"],
    )


@exercise("select-and-identity")
def select_exercise(seed: int) -> ExerciseSheet:
    keys = torch.round(spread_keys(4, 3, seed=seed), decimals=2)
    values = numbers(4, 3, seed=seed + 1)
    order = torch.randperm(4, generator=torch.Generator().manual_seed(seed + 2))
    goal = values[order]

    def mark(answer: Answer) -> Mark:
        found = look_up(answer["Q"], keys, values)
        assert found.weights is not None
        says = "The darker, the heavier: each query should have one dark key."
        drawn = Weights(names(4, "q"), names(4), found.weights)
        return Mark(far(found.out, goal), 0.01, says, drawn)

    wanted = ", ".join(str(int(place) + 1) for place in order)
    return ExerciseSheet(
        task=f"Find queries Q, one a row, that return the values {wanted}, in this order.",
        given={"keys": keys, "values": values},
        slots=(Slot("Q", (4, 3)),),
        mark=mark,
    )
