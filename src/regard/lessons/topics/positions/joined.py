"""Positions joined to words: what adding and what concatenating does to scores.

    add: (x₁ + p₁)·(x₂ + p₂) = x₁·x₂ + x₁·p₂ + p₁·x₂ + p₁·p₂
    concatenate: [x₁; p₁]·[x₂; p₂] = x₁·x₂ + p₁·p₂

Shapes: n places, w width of a vector.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from regard.attention.positions.sinusoidal import Sinusoidal
from regard.lessons.by_hand import names, scores_of, weights_of
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
from regard.lessons.lesson import Lesson, LessonTable, near
from regard.lessons.lesson_charts import bars
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.lessons.topics.positions.sinusoids import waves
from regard.models.blocks.embedding import Embedding

WORDS = 4


@lesson("add-or-concatenate", topic="positions", title="Adding positions or concatenating them")
def add_or_concatenate(
    *,
    half_width: Annotated[int, Range(1, 64)] = 8,
    first: Annotated[int, Range(0, 31)] = 3,
    second: Annotated[int, Range(0, 31)] = 5,
    seed: Seed = 0,
) -> Lesson:
    """Which terms does a score have when positions are added, and which when they are concatenated?

    Added: x₁·x₂ + x₁·p₂ + p₁·x₂ + p₁·p₂, because both sums are multiplied out. Concatenated:
    x₁·x₂ + p₁·p₂, because what stands side by side never meets; so weights are a product of those
    that words alone would have and those of positions alone, normalised again.

    Concatenation is thus sometimes called the one without cross terms. That holds as long as no
    matrix mixes the two parts. With matrices it can do all that addition can: W(x + p) is
    [W W][x; p], so adding is concatenating with two halves of the matrix kept alike. What it costs
    is width.
    """
    w = 2 * half_width
    added, beside = _embeddings(w, seed=seed)
    ids, positions = torch.arange(WORDS)[None], torch.tensor([[first, second, 0, 31]])
    x, p = added.tokens(ids)[0], waves(w, 32)[positions[0]]
    pairs = {"x₁·x₂": (x, x), "x₁·p₂": (x, p), "p₁·x₂": (p, x), "p₁·p₂": (p, p)}
    values = {name: _product(one[0], other[1]) for name, (one, other) in pairs.items()}
    sums, together = added(ids, positions)[0], beside(ids, positions)[0]
    sum_score, beside_score = _product(sums[0], sums[1]), _product(together[0], together[1])
    apart = weights_of(x[0], x) * weights_of(p[0], p)
    matrix = numbers(3, w, seed=seed)
    by_sum = added(ids, positions) @ matrix.T
    by_both = beside(ids, positions) @ torch.cat((matrix, matrix), dim=1).T
    in_both = {"x₁·x₂", "p₁·p₂"}
    return Lesson(
        table=LessonTable(
            ("term", "added", "concatenated"),
            [
                *((name, one, one if name in in_both else 0.0) for name, one in values.items()),
                ("score", sum_score, beside_score),
            ],
        ),
        chart=bars(
            [
                {"term": name, "part of the score": part, "": way}
                for name, one in values.items()
                for way, part in (("added", one), ("concatenated", one if name in in_both else 0.0))
            ],
            name="term",
            value="part of the score",
            series="",
        ),
        caption=f"The parts of the score between a word at place {first} and one at {second}.",
        checks=[
            near("score, added, is the four terms", sum_score, sum(values.values()), within=1e-9),
            near(
                "score, concatenated, is the two terms",
                beside_score,
                sum(values[name] for name in in_both),
                within=1e-9,
            ),
            near(
                "log-weights, concatenated: those of words plus those of positions, normalised",
                weights_of(together[0], together).log(),
                apart.log() - apart.sum().log(),
                within=1e-9,
            ),
            near("[W W][x; p] against W(x + p)", by_both, by_sum, within=1e-9),
        ],
        see=[
            "models/blocks/embedding.py",
            "attention/positions/__init__.py",
            "recipes/positions.toml",
        ],
    )


def _product(first: Tensor, second: Tensor) -> float:
    """As the rule of attention multiplies a query with a key."""
    return float(scores_of(first, second[None])[0])


def _embeddings(width: int, *, seed: int) -> tuple[Embedding, Embedding]:
    """A few words by one table: with positions added, and beside them in as much width again."""
    added = Embedding(WORDS, width=width, context=32, positions=Sinusoidal(), dropout=0.0)
    beside = Embedding(
        WORDS,
        width=2 * width,
        context=32,
        positions=Sinusoidal(combine="concatenate", own_width=width),
        dropout=0.0,
    )
    added.tokens.weight = nn.Parameter(numbers(WORDS, width, seed=seed), requires_grad=False)
    beside.share_tokens(added)
    return added.double(), beside.double()


@exercise("add-or-concatenate")
def add_or_concatenate_exercise(seed: int) -> ExerciseSheet:
    x, p = numbers(2, 3, 2, seed=seed, decimals=1)
    joined = {"added": x + p, "concatenated": torch.cat((x, p), dim=1)}
    wanted = {
        way: torch.stack([scores_of(one, rows) for one in rows]) for way, rows in joined.items()
    }

    def mark(answer: Answer) -> Mark:
        missed = {way: far(answer[way], wanted[way]) for way in wanted}
        says = "; ".join(f"{way}, off by at most {one:.2g}" for way, one in missed.items())
        rows = joined["concatenated"]
        drawn = Weights(names(3, "q"), names(3), weights_of(rows, rows))
        return Mark(max(missed.values()), 0.011, f"{says}. Drawn: weights, concatenated.", drawn)

    return ExerciseSheet(
        task="Three words have the vectors x and stand at places with the vectors p. Give the "
        "scores of all pairs, 3 × 3, as plain inner products: with positions added, and with "
        "positions concatenated. 0.01 is near enough.",
        given={"x": x, "p": p},
        slots=(Slot("added", (3, 3)), Slot("concatenated", (3, 3))),
        mark=mark,
    )
