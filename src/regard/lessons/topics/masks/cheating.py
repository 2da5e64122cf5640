"""A mask after the softmax: what each place still senses of the future.

    w_ij = exp(s_ij) / Σ_all exp(s_ij')        ∂out_i / ∂s_im = −w_im · out_i  for a blocked m

Masks: True = may attend. Shapes: h heads, i query, j key, m a blocked key, d head width.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds.dot import DotProduct
from regard.attention.kinds.soft_masked import SoftMasked
from regard.attention.kinds.zero_masked import MaskAfterSoftmax
from regard.attention.masks.mask import causal
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
from regard.lessons.lesson_charts import heat
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson


@lesson("zero-masking", topic="masks", title="A mask after the softmax does not hide the future")
def zero_masking(
    *,
    positions: Annotated[int, Range(3, 12)] = 6,
    width: Annotated[int, Range(2, 32)] = 8,
    seed: Seed = 0,
) -> Lesson:
    """Does setting weights to zero after the softmax hide the future?

    No. The future's values are gone, but its scores have already been counted: each allowed weight
    is e^s over a sum that runs over all keys. So the output o_i of place i still moves when a
    future key moves, by −w_im·o_i for each unit of its score (w_im being the weight taken away),
    and a model can read in it how well the next token fits. With −∞ before the softmax the
    derivative is exactly zero; with a finite penalty it is merely small.
    """
    q, k, v = _drawn(positions, width, seed=seed)
    rules: dict[str, AttentionFunction] = {
        "−∞ before the softmax": DotProduct(),
        "0 after the softmax": MaskAfterSoftmax(),
        "finite penalty, 9": _soft(width),
    }
    influence = {name: _influence(rule, q, k, v) for name, rule in rules.items()}
    future = torch.ones(positions, positions, dtype=torch.bool).triu(1)
    sensed = {name: found[future] for name, found in influence.items()}
    sums = {name: _weights(rule, q, k, v).sum(dim=-1) for name, rule in rules.items()}
    honest, late, soft = (found.max() for found in sensed.values())
    first_sum = sums["0 after the softmax"][0]
    cheating, predicted = sensed["0 after the softmax"], _predicted(q, k, v)[future]
    labels = [str(place + 1) for place in range(positions)]
    senses = influence["0 after the softmax"].tolist()
    return Lesson(
        table=LessonTable(
            ("mask", "largest influence of a future key", "sum of a row's weights, least"),
            [(name, float(sensed[name].max()), float(sums[name].min())) for name in rules],
        ),
        chart=heat(senses, down=labels, across=labels, title="influence of a key"),
        caption="Mask after the softmax: how strongly each query's output (row) reacts to each key "
        "(column). Above the diagonal there should be nothing.",
        checks=[
            equal("influence of future keys, −∞ before", float(honest), 0.0),
            above("influence of future keys, 0 after", late, 0.01),
            near("the same, against w_im·|o_i|·|q_i|/√d", cheating, predicted, within=1e-12),
            below("sum of the first place's weights, 0 after", first_sum, 0.999),
            above("influence of future keys, penalty of 9", soft, 1e-9),
        ],
        see=["attention/kinds/zero_masked.py", "audits/leaks/causality.py", "recipes/masking.toml"],
    )


def _drawn(positions: int, width: int, *, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 1, 1, positions, width, generator=generator, dtype=torch.float64)
    return q, k, v


def _soft(width: int) -> AttentionFunction:
    rule = SoftMasked().build(HeadShape(width, 1))
    assert isinstance(rule, AttentionFunction)
    return rule


def _weights(rule: AttentionFunction, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = attend(q, k, v, causal(), rule, want_weights=True).weights
    assert weights is not None
    return weights[0, 0]


def _influence(rule: AttentionFunction, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(i,j): the length of the derivative of output i with respect to key j."""

    def out(keys: Tensor) -> Tensor:
        return attend(q, keys, v, causal(), rule).out[0, 0]

    jacobian = torch.autograd.functional.jacobian(out, k)  # type: ignore[no-untyped-call]
    sizes: Tensor = jacobian[:, :, 0, 0].square().sum(dim=(1, 3)).sqrt()
    return sizes


def _predicted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(i,m): |w_im| · |out_i| · |q_i| / √d, w_im being what the softmax gave before the mask."""
    rule = MaskAfterSoftmax()
    everywhere = torch.ones(1, 1, q.shape[2], k.shape[2], dtype=torch.bool)
    taken = rule.normalise(rule.scores(q, k), everywhere)[0, 0]
    out = attend(q, k, v, causal(), rule).out[0, 0]
    lengths = out.norm(dim=-1) * q[0, 0].norm(dim=-1) / math.sqrt(q.shape[-1])
    predicted: Tensor = taken * lengths[:, None]
    return predicted


@exercise("zero-masking")
def zero_masking_exercise(seed: int) -> ExerciseSheet:
    scores = numbers(4, 4, seed=seed, decimals=1)
    allowed = torch.ones(4, 4, dtype=torch.bool).tril()
    honest = DotProduct().normalise(scores, allowed)
    cheating = MaskAfterSoftmax().normalise(scores, allowed)

    def mark(answer: Answer) -> Mark:
        mistaken = far(answer["weights"], cheating)
        says = "These are the weights of a mask after the softmax: rows sum to less than 1."
        if mistaken > 0.01:
            says = f"The rows sum to {float(answer['weights'].sum(dim=1).mean()):.3g} on average."
        rows = [str(place + 1) for place in range(4)]
        drawn = Weights(rows, rows, answer["weights"])
        return Mark(far(answer["weights"], honest), 0.005, says, drawn)

    return ExerciseSheet(
        task="Give the 4 × 4 attention weights that follow from these scores under a causal mask "
        "that really hides the future (two digits after the point suffice).",
        given={"scores": scores},
        slots=(Slot("weights", (4, 4)),),
        mark=mark,
    )
