"""A mask applied after the softmax: future keys still influence every output.

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
    heatmap,
    lesson,
    max_difference,
    near,
    rounded_normal,
    standard_normal,
)
from regard.lessons.unscaled_attention import attend_sequence


@lesson("zero-masking", topic="masks", title="A mask after the softmax leaks the future")
def zero_masking(
    *,
    positions: Annotated[int, Range(3, 12)] = 6,
    width: Annotated[int, Range(2, 32)] = 8,
    seed: Seed = 0,
) -> Lesson:
    """Does setting weights to zero after the softmax mask the future?

    No. Future values are removed, but future scores remain in the softmax denominator, which sums
    over all keys. The output o_i at position i therefore still depends on a future key m: its
    derivative with respect to the score is −w_im·o_i (w_im being the weight set to zero), and a
    model can infer from it how well the next token fits. With −∞ before the softmax the derivative
    is exactly zero; with a finite penalty it is merely small.
    """
    q, k, v = standard_normal(3, 1, 1, positions, width, seed=seed)
    functions: dict[str, AttentionFunction] = {
        "−∞ before the softmax": DotProduct(),
        "0 after the softmax": MaskAfterSoftmax(),
        "finite penalty, 9": SoftMasked().build(HeadShape(width, 1)),
    }
    influence = {name: _influence(function, q, k, v) for name, function in functions.items()}
    future = torch.ones(positions, positions, dtype=torch.bool).triu(1)
    future_influence = {name: table[future] for name, table in influence.items()}
    sums = {
        name: attend_sequence(q[0, 0], k[0, 0], v[0, 0], causal(), function).weights.sum(dim=-1)
        for name, function in functions.items()
    }
    before, after, penalty = (values.max() for values in future_influence.values())
    labels = [str(position + 1) for position in range(positions)]
    return Lesson(
        table=LessonTable(
            ("mask", "largest influence of a future key", "smallest sum of a row's weights"),
            [
                (name, float(future_influence[name].max()), float(sums[name].min()))
                for name in functions
            ],
        ),
        chart=heatmap(
            influence["0 after the softmax"].tolist(),
            row_labels=labels,
            column_labels=labels,
            title="influence of a key",
        ),
        caption="Mask after the softmax: norm of the derivative of each query's output (row) with "
        "respect to each key (column). Above the diagonal it should be zero.",
        checks=[
            equal("influence of future keys, −∞ before", float(before), 0.0),
            above("influence of future keys, 0 after", after, 0.01),
            near(
                "the same vs w_im·|o_i|·|q_i|/√d",
                future_influence["0 after the softmax"],
                _predicted_influence(q, k, v)[future],
                within=1e-12,
            ),
            below(
                "sum of the first position's weights, 0 after",
                sums["0 after the softmax"][0],
                0.999,
            ),
            above("influence of future keys, penalty of 9", penalty, 1e-9),
        ],
        see_also=[
            "attention/kinds/zero_masked.py",
            "audits/leaks/causality.py",
            "recipes/masking.toml",
        ],
    )


def _influence(function: AttentionFunction, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(i,j): norm of the derivative of output i with respect to key j."""

    def out(keys: Tensor) -> Tensor:
        return attend(q, keys, v, causal(), function).out[0, 0]

    jacobian = torch.autograd.functional.jacobian(out, k)  # type: ignore[no-untyped-call]
    return torch.as_tensor(jacobian[:, :, 0, 0].square().sum(dim=(1, 3)).sqrt())


def _predicted_influence(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(i,m): |w_im| · |out_i| · |q_i| / √d, with w_im the softmax weight before masking."""
    function = MaskAfterSoftmax()
    all_allowed = torch.ones(1, 1, q.shape[2], k.shape[2], dtype=torch.bool)
    weights = function.normalise(function.scores(q, k), all_allowed)[0, 0]
    out = attend(q, k, v, causal(), function).out[0, 0]
    norms = out.norm(dim=-1) * q[0, 0].norm(dim=-1) / math.sqrt(q.shape[-1])
    return torch.as_tensor(weights * norms[:, None])


@exercise("zero-masking")
def zero_masking_exercise(seed: int) -> ExerciseSheet:
    scores = rounded_normal(4, 4, seed=seed, decimals=1)
    allowed = torch.ones(4, 4, dtype=torch.bool).tril()
    causal_weights = DotProduct().normalise(scores, allowed)
    leaking_weights = MaskAfterSoftmax().normalise(scores, allowed)

    def mark(answer: Answer) -> Mark:
        weights = answer["weights"]
        feedback = f"The rows sum to {float(weights.sum(dim=1).mean()):.3g} on average."
        if max_difference(weights, leaking_weights) <= 0.01:
            feedback = "These are the weights of a mask after the softmax: rows sum to less than 1."
        error, labels = max_difference(weights, causal_weights), [str(n) for n in range(1, 5)]
        return Mark(error, 0.005, feedback, Heatmap(labels, labels, weights))

    return ExerciseSheet(
        task="Give the 4 × 4 attention weights for these scores under a causal mask that does not "
        "leak the future (two decimals suffice).",
        given={"scores": scores},
        slots=(Slot("weights", (4, 4)),),
        mark=mark,
    )
