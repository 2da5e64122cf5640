"""Adding and concatenating position embeddings: the terms of the scores.

    add: (x₁ + p₁)·(x₂ + p₂) = x₁·x₂ + x₁·p₂ + p₁·x₂ + p₁·p₂
    concatenate: [x₁; p₁]·[x₂; p₂] = x₁·x₂ + p₁·p₂

Shapes: n positions, w embedding width.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from regard.attention.positions.sinusoidal import Sinusoidal
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
    bar_chart,
    exercise,
    lesson,
    max_difference,
    near,
    rounded_normal,
)
from regard.lessons.topics.positions.sinusoids import sinusoidal_table
from regard.lessons.unscaled_attention import subscripted, unscaled_scores, unscaled_weights
from regard.models.blocks.embedding import Embedding

VOCABULARY = 4


@lesson("add-or-concatenate", topic="positions", title="Adding or concatenating positions")
def add_or_concatenate(
    *,
    half_width: Annotated[int, Range(1, 64)] = 8,
    first: Annotated[int, Range(0, 31)] = 3,
    second: Annotated[int, Range(0, 31)] = 5,
    seed: Seed = 0,
) -> Lesson:
    """Which terms does a score have when positions are added, and which when they are concatenated?

    Added: x₁·x₂ + x₁·p₂ + p₁·x₂ + p₁·p₂, the expanded product of both sums. Concatenated:
    x₁·x₂ + p₁·p₂, because components in different dimensions are never multiplied; the weights are
    then the product of the weights from tokens alone and from positions alone, renormalised.

    Concatenation is therefore said to have no cross terms. That holds only as long as no projection
    mixes the two components. With projections it is at least as expressive as addition: W(x + p) is
    [W W][x; p], so adding is concatenating with the two halves of the projection tied. Its price is
    width.
    """
    w = 2 * half_width
    adding, concatenating = _embeddings(w, seed=seed)
    ids, positions = torch.arange(VOCABULARY)[None], torch.tensor([[first, second, 0, 31]])
    x, p = adding.tokens(ids)[0], sinusoidal_table(w, 32)[positions[0]]
    pairs = {"x₁·x₂": (x, x), "x₁·p₂": (x, p), "p₁·x₂": (p, x), "p₁·p₂": (p, p)}
    terms = {name: _score(left[0], right[1]) for name, (left, right) in pairs.items()}
    added, concatenated = adding(ids, positions)[0], concatenating(ids, positions)[0]
    added_score = _score(added[0], added[1])
    concatenated_score = _score(concatenated[0], concatenated[1])
    product = unscaled_weights(x[0], x) * unscaled_weights(p[0], p)
    matrix = rounded_normal(3, w, seed=seed)
    of_sum = adding(ids, positions) @ matrix.T
    of_concatenation = concatenating(ids, positions) @ torch.cat((matrix, matrix), dim=1).T
    shared_terms = {"x₁·x₂", "p₁·p₂"}
    return Lesson(
        table=LessonTable(
            ("term", "added", "concatenated"),
            [
                *((name, one, one if name in shared_terms else 0.0) for name, one in terms.items()),
                ("score", added_score, concatenated_score),
            ],
        ),
        chart=bar_chart(
            [
                {"term": name, "contribution to the score": contribution, "": positions_are}
                for name, one in terms.items()
                for positions_are, contribution in (
                    ("added", one),
                    ("concatenated", one if name in shared_terms else 0.0),
                )
            ],
            name="term",
            value="contribution to the score",
            series="",
        ),
        caption=f"Terms of the score between a token at position {first} and one at {second}.",
        checks=[
            near("score, added: sum of four terms", added_score, sum(terms.values()), within=1e-9),
            near(
                "score, concatenated: sum of two terms",
                concatenated_score,
                sum(terms[name] for name in shared_terms),
                within=1e-9,
            ),
            near(
                "log-weights, concatenated: tokens plus positions, normalised",
                unscaled_weights(concatenated[0], concatenated).log(),
                product.log() - product.sum().log(),
                within=1e-9,
            ),
            near("[W W][x; p] vs W(x + p)", of_concatenation, of_sum, within=1e-9),
        ],
        see_also=[
            "models/blocks/embedding.py",
            "attention/positions/__init__.py",
            "recipes/positions.toml",
        ],
    )


def _score(q: Tensor, k: Tensor) -> float:
    return float(unscaled_scores(q, k[None])[0])


def _embeddings(width: int, *, seed: int) -> tuple[Embedding, Embedding]:
    """One token table with positions added, and with positions of equal width concatenated."""
    adding = Embedding(VOCABULARY, width=width, context=32, positions=Sinusoidal(), dropout=0.0)
    concatenating = Embedding(
        VOCABULARY,
        width=2 * width,
        context=32,
        positions=Sinusoidal(combine="concatenate", position_width=width),
        dropout=0.0,
    )
    adding.tokens.weight = nn.Parameter(
        rounded_normal(VOCABULARY, width, seed=seed), requires_grad=False
    )
    concatenating.tie_tokens(adding)
    return adding.double(), concatenating.double()


@exercise("add-or-concatenate")
def add_or_concatenate_exercise(seed: int) -> ExerciseSheet:
    x, p = rounded_normal(2, 3, 2, seed=seed, decimals=1)
    inputs = {"added": x + p, "concatenated": torch.cat((x, p), dim=1)}
    target = {
        name: torch.stack([unscaled_scores(row, rows) for row in rows])
        for name, rows in inputs.items()
    }

    def mark(answer: Answer) -> Mark:
        errors = {name: max_difference(answer[name], target[name]) for name in target}
        feedback = "; ".join(f"{name}: largest error {error:.2g}" for name, error in errors.items())
        rows = inputs["concatenated"]
        attention_map = Heatmap(subscripted(3, "q"), subscripted(3), unscaled_weights(rows, rows))
        return Mark(
            max(errors.values()), 0.011, f"{feedback}. Drawn: weights, concatenated.", attention_map
        )

    return ExerciseSheet(
        task="Three tokens have embeddings x and position embeddings p. Give the scores of all "
        "pairs, 3 × 3, as inner products without scaling: with positions added, and with positions "
        "concatenated. 0.01 is close enough.",
        given={"x": x, "p": p},
        slots=(Slot("added", (3, 3)), Slot("concatenated", (3, 3))),
        mark=mark,
    )
