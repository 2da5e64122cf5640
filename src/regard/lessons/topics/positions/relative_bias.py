"""Relative positions as a bias on the scores, and its effect on the weights.

    score(i, j) = q_i·k_j/√d + π_ij            weight_ij ∝ e^(π_ij) · e^(q_i·k_j/√d)

Shapes: n positions, d head width, r width of concatenated position embeddings.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.function import HeadShape
from regard.attention.positions import RelativePosition
from regard.attention.positions.alibi import Alibi
from regard.attention.positions.relative import Relative, RelativeBias
from regard.attention.positions.sinusoidal import Sinusoidal
from regard.lessons import (
    Answer,
    Check,
    ExerciseSheet,
    Heatmap,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    exercise,
    lesson,
    line_chart,
    max_difference,
    near,
    rounded_normal,
)
from regard.lessons.unscaled_attention import attend_sequence, subscripted

ERROR = "largest error ÷ largest bias"


@lesson("relative-bias", topic="positions", title="A relative bias equals concatenated positions")
def relative_bias(
    *,
    length: Annotated[int, Range(2, 24)] = 12,
    width: Annotated[int, Range(1, 32)] = 8,
    beside: Annotated[int, Range(1, 16)] = 4,
    seed: Seed = 0,
) -> Lesson:
    """What does a bias π_ij on the scores do, and when does it equal concatenated positions?

    They are equal when π_ij = q_pos·k_pos, since [q; q_pos]·[k; k_pos] = q·k + q_pos·k_pos: the
    same scores, hence the same weights and outputs, if both terms have the same scaling. The bias
    is inside the exponential, so e^π multiplies a key's weight before normalisation: a bias of
    log 2 doubles the odds of a key.

    Conversely, every bias matrix is such a product, with position embeddings as wide as its rank.
    Sinusoids have a small rank and need little width. ALiBi's slopes and learned biases have full
    rank n, where a relative bias needs 2n − 1 values; slopes are at least well approximated with a
    small width.
    """
    q, k, v = rounded_normal(3, length, width, seed=seed)
    biases = _bias_matrices(length, seed=seed)
    ranks = {name: int(torch.linalg.matrix_rank(bias, rtol=1e-9)) for name, bias in biases.items()}
    return Lesson(
        table=LessonTable(
            ("bias", "distances", "width of equal concatenated positions"),
            [(name, len(bias) * 2 - 1, ranks[name]) for name, bias in biases.items()],
        ),
        chart=line_chart(
            [
                {"width of positions": r, ERROR: error, "bias": name}
                for name, bias in biases.items()
                for r, error in enumerate(_errors_by_width(bias), start=1)
            ],
            x="width of positions",
            y=ERROR,
            series="bias",
        ),
        caption="Approximation error of three bias matrices by concatenated position embeddings, "
        f"against their width; {length} positions.",
        checks=[
            *_concatenation_checks(q, k, v, rounded_normal(2, length, beside, seed=seed + 1)),
            _odds_check(q, k, v),
            near(
                "error of concatenated positions as wide as the rank",
                [_errors_by_width(bias)[ranks[name] - 1] for name, bias in biases.items()],
                [0.0] * len(biases),
                within=1e-8,
            ),
        ],
        see_also=[
            "attention/positions/relative.py",
            "attention/attend.py",
            "recipes/positions.toml",
        ],
    )


def _concatenation_checks(q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> list[Check]:
    """Bias π = q_pos·k_pos against the same queries and keys with positions concatenated."""
    q_pos, k_pos = positions
    bias = q_pos @ k_pos.T
    width = q.shape[1]
    root = math.sqrt(width + q_pos.shape[1])  # `attend` divides the concatenated scores by it
    concatenated_q = torch.cat((q * (root / math.sqrt(width)), q_pos * root), dim=1)
    biased = attend_sequence(q, k, v, bias=bias)
    concatenated = attend_sequence(concatenated_q, torch.cat((k, k_pos), dim=1), v)
    unnormalised = attend_sequence(q, k, v).weights * bias.exp()
    return [
        near("output: bias q_pos·k_pos vs concatenated", biased.out, concatenated.out, within=1e-9),
        near("weights: the same", biased.weights, concatenated.weights, within=1e-9),
        near(
            "weights with bias vs e^π · weights without, normalised",
            biased.weights,
            unnormalised / unnormalised.sum(dim=-1, keepdim=True),
            within=1e-9,
        ),
    ]


def _odds_check(q: Tensor, k: Tensor, v: Tensor) -> Check:
    bias = torch.zeros(len(q), len(k), dtype=torch.float64)
    bias[:, 0] = math.log(2)
    with_bias, without = (attend_sequence(q, k, v, bias=each).weights for each in (bias, None))
    odds_ratio = _odds(with_bias[:, 0]) / _odds(without[:, 0])
    return near("odds ratio of a key with bias log 2", odds_ratio, [2.0] * len(q), within=1e-6)


def _odds(weights: Tensor) -> Tensor:
    return weights / (1 - weights)


def _bias_matrices(length: int, *, seed: int) -> dict[str, Tensor]:
    """(n,n): a learned bias, ALiBi's slopes, and inner products of sinusoids."""
    shape = HeadShape(width=8, heads=1, context=length)
    learned = Relative().build_relative_position(shape)
    assert isinstance(learned, RelativeBias)
    with torch.no_grad():
        learned.table.copy_(rounded_normal(1, 2 * length - 1, seed=seed))
    embedding = Sinusoidal().build_embedding(width=4, context=length)
    sinusoids = embedding(torch.arange(length)).double()
    return {
        "learned": _bias_matrix(learned, length),
        "alibi": _bias_matrix(Alibi().build_relative_position(shape), length),
        "sinusoids of width 4": sinusoids @ sinusoids.T,
    }


def _bias_matrix(relative_position: RelativePosition, length: int) -> Tensor:
    positions = torch.arange(length)[None]
    found = relative_position.bias(positions, positions)
    assert found is not None
    return found[0, 0].detach().double()


def _errors_by_width(bias: Tensor) -> list[float]:
    """Largest error of q_pos·k_pos from the truncated SVD for widths 1, 2, …, relative to the
    largest bias."""
    left, singular_values, right = torch.linalg.svd(bias)
    return [
        max_difference((left[:, :r] * singular_values[:r]) @ right[:r], bias)
        / float(bias.abs().max())
        for r in range(1, len(bias) + 1)
    ]


@exercise("relative-bias")
def relative_bias_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    q, keys = rounded_normal(1, 4, seed=seed), rounded_normal(4, 4, seed=seed + 1)
    draws = torch.rand(4, generator=generator, dtype=torch.float64) + 0.2
    target = torch.round(draws / draws.sum(), decimals=2)
    target[0] += 1 - target.sum()

    def mark(answer: Answer) -> Mark:
        found = attend_sequence(q, keys, keys, bias=answer["bias"][None]).weights
        error = max_difference(found[0], target)
        feedback = f"Largest error of the resulting weights: {error:.2g}."
        return Mark(error, 0.01, feedback, Heatmap(["q"], subscripted(4), found))

    return ExerciseSheet(
        task="Scores are q·k/√4 plus a bias per key. Find biases such that the four keys get the "
        "given weights, within 0.01.",
        given={"q": q[0], "keys": keys, "weights": target},
        slots=(Slot("bias", (4,)),),
        mark=mark,
    )
