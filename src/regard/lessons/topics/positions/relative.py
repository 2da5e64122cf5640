"""Relative positions: a bias on the scores, and what it does to weights.

    score(i, j) = q_i·k_j/√d + π_ij            weight_ij ∝ e^(π_ij) · e^(q_i·k_j/√d)

Shapes: n places, d head width, r width of concatenated positions.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import AttentionOutput, attend
from regard.attention.function import HeadShape
from regard.attention.positions import RelativePosition
from regard.attention.positions.alibi import Alibi
from regard.attention.positions.relative import DistanceBias, Relative
from regard.attention.positions.sinusoidal import Sinusoidal
from regard.lessons.by_hand import names
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
from regard.lessons.lesson import Check, Lesson, LessonTable, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson

ERROR = "largest error, as a share of the largest bias"


@lesson("relative-bias", topic="positions", title="A relative bias is a concatenation")
def relative_bias(
    *,
    length: Annotated[int, Range(2, 24)] = 12,
    width: Annotated[int, Range(1, 32)] = 8,
    beside: Annotated[int, Range(1, 16)] = 4,
    seed: Seed = 0,
) -> Lesson:
    """What does a bias π_ij on the scores do, and when is it the same as concatenated positions?

    Whenever π_ij = q_pos·k_pos, since [q; q_pos]·[k; k_pos] = q·k + q_pos·k_pos: the same scores,
    hence the same weights and outputs, as long as both parts are divided by the same root. The bias
    stands inside the exponent, so e^π scales a key's weight before it is normalised: a bias of
    log 2 doubles the odds of a key.

    The other way round, every table of biases is such a product: with positions as wide as the
    rank of the table. Waves have a small rank and need little width. Slopes and learnt tables have
    all the rank there can be, one for each place, where a bias needs 2n − 1 numbers; slopes at
    least come near with little.
    """
    q, k, v = numbers(3, length, width, seed=seed)
    tables = _tables(length, seed=seed)
    ranks = {
        name: int(torch.linalg.matrix_rank(table, rtol=1e-9)) for name, table in tables.items()
    }
    return Lesson(
        table=LessonTable(
            ("bias", "distances it tells apart", "width of the same by concatenation"),
            [(name, len(table) * 2 - 1, ranks[name]) for name, table in tables.items()],
        ),
        chart=curves(
            [
                {"width of positions": r, ERROR: error, "bias": name}
                for name, table in tables.items()
                for r, error in enumerate(_errors_by_width(table), start=1)
            ],
            x="width of positions",
            y=ERROR,
            series="bias",
        ),
        caption="How well concatenated positions of some width can stand for three tables of "
        f"biases over {length} places.",
        checks=[
            *_as_concatenated(q, k, v, numbers(2, length, beside, seed=seed + 1)),
            _odds_doubled(q, k, v),
            near(
                "a table of biases as concatenated positions, error at its rank",
                [_errors_by_width(table)[ranks[name] - 1] for name, table in tables.items()],
                [0.0] * len(tables),
                within=1e-8,
            ),
        ],
        see=["attention/positions/relative.py", "attention/attend.py", "recipes/positions.toml"],
    )


def _as_concatenated(q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> list[Check]:
    """π = q_pos·k_pos as a bias, beside the same queries and keys with positions concatenated."""
    q_pos, k_pos = positions
    bias = q_pos @ k_pos.T
    width = q.shape[1]
    wide = math.sqrt(width + q_pos.shape[1])  # `attend` divides by this root, by √d without them
    joined_q = torch.cat((q * (wide / math.sqrt(width)), q_pos * wide), dim=1)
    biased = _attended(q, k, v, bias)
    joined = _attended(joined_q, torch.cat((k, k_pos), dim=1), v)
    scaled = _weights(q, k, v) * bias.exp()
    assert biased.weights is not None
    assert joined.weights is not None
    return [
        near("output, π = q_pos·k_pos, against concatenated", biased.out, joined.out, within=1e-9),
        near("weights, the same", biased.weights, joined.weights, within=1e-9),
        near(
            "weights against e^π · weights without bias, normalised",
            biased.weights,
            scaled / scaled.sum(dim=-1, keepdim=True),
            within=1e-9,
        ),
    ]


def _odds_doubled(q: Tensor, k: Tensor, v: Tensor) -> Check:
    bias = torch.zeros(len(q), len(k), dtype=torch.float64)
    bias[:, 0] = math.log(2)
    odds = _odds(_weights(q, k, v, bias)[:, 0]) / _odds(_weights(q, k, v)[:, 0])
    twice = torch.full((len(q),), 2.0)
    return near("a bias of log 2 on a key multiplies its odds by", odds, twice, within=1e-6)


def _weights(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    found = _attended(q, k, v, bias).weights
    assert found is not None
    return found


def _attended(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> AttentionOutput:
    """One row and one head: (n,d) -> out (n,d), weights (n,n)."""
    found = attend(
        q[None, None],
        k[None, None],
        v[None, None],
        bias=None if bias is None else bias[None, None],
        want_weights=True,
    )
    assert found.weights is not None
    return found._replace(out=found.out[0, 0], weights=found.weights[0, 0])


def _odds(weights: Tensor) -> Tensor:
    return weights / (1 - weights)


def _tables(length: int, *, seed: int) -> dict[str, Tensor]:
    """Biases (n,n) over one row: learnt, sloping, and of waves."""
    shape = HeadShape(width=8, heads=1, context=length)
    learnt = Relative().build_relation(shape)
    assert isinstance(learnt, DistanceBias)
    with torch.no_grad():
        learnt.table.copy_(numbers(1, 2 * length - 1, seed=seed))
    vectors = Sinusoidal().build_vectors(width=4, context=length)
    waves = vectors(torch.arange(length)).double()
    return {
        "learnt": _over_row(learnt, length),
        "alibi": _over_row(Alibi().build_relation(shape), length),
        "sinusoids of width 4": waves @ waves.T,
    }


def _over_row(relation: RelativePosition, length: int) -> Tensor:
    positions = torch.arange(length)[None]
    found = relation.bias(positions, positions)
    assert found is not None
    return found[0, 0].detach().double()


def _errors_by_width(table: Tensor) -> list[float]:
    """The error of q_pos·k_pos for widths 1, 2, …, taken from the singular vectors, as a share of
    the largest bias."""
    left, sizes, right = torch.linalg.svd(table)
    largest = float(table.abs().max())
    return [
        far((left[:, :r] * sizes[:r]) @ right[:r], table) / largest
        for r in range(1, len(table) + 1)
    ]


@exercise("relative-bias")
def relative_bias_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    q, keys = numbers(1, 4, seed=seed), numbers(4, 4, seed=seed + 1)
    drawn = torch.rand(4, generator=generator, dtype=torch.float64) + 0.2
    wanted = torch.round(drawn / drawn.sum(), decimals=2)
    wanted[0] += 1 - wanted.sum()

    def mark(answer: Answer) -> Mark:
        found = _weights(q, keys, keys, answer["bias"][None])
        missed = far(found[0], wanted)
        says = f"Your bias gives weights that miss by at most {missed:.2g}."
        return Mark(missed, 0.01, says, Weights(["q"], names(4), found))

    return ExerciseSheet(
        task="Scores are q·k/√4 plus a bias for each key. Find biases with which the four keys get "
        "the weights asked for, to 0.01.",
        given={"q": q[0], "keys": keys, "weights": wanted},
        slots=(Slot("bias", (4,)),),
        mark=mark,
    )
