"""Sinusoidal positions: which of them are alike, and what a word's vector makes of them.

    p_i · p_j = Σ_c cos(ω_c (i − j))                                    Vaswani et al., 2017

Shapes: n places, w width of a vector, v words.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.function import HeadShape
from regard.attention.kinds import Projections
from regard.attention.kinds.dot import Dot
from regard.attention.multi_head import MultiHeadAttention, build_mixer
from regard.attention.positions.sinusoidal import Sinusoidal, Waves
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise, far
from regard.lessons.lesson import Check, Draw, Lesson, LessonTable, above, below, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.models.blocks.embedding import Embedding
from regard.models.init_weights import init_weights

PLACES = 64
WORDS = 300
DRAWS = 12
"Of starting values, over which a mean is taken."


@lesson("sinusoids", topic="positions", title="Nearby sinusoids are alike")
def sinusoids(
    *,
    half_width: Annotated[int, Range(16, 128)] = 32,
    deviation: Annotated[float, Range(0.01, 1)] = 1.0,
    seed: Seed = 0,
) -> Lesson:
    """What do inner products of sinusoidal positions say about distance?

    p_i·p_j = Σ_c cos(ω_c (i − j)): it depends on the distance alone, is largest for a place with
    itself (half the width) and falls as places part, at first. It does not fall for ever: waves
    come back, so far places may be a little more alike than nearer ones. Random starting vectors
    are nearly at right angles to any given one, so x·p is small beside p·p at the start: about
    √(2/w) times the deviation of x.

    That is said of the vectors. Queries and keys have matrices of their own in between, which at
    the start know nothing of each other: only if both share one matrix do scores fall with the
    distance from the first step on; with separate ones this has to be learnt.
    """
    w = 2 * half_width
    table, tokens = waves(w, PLACES), _starting_words(deviation, w, seed=seed)
    cross = _typical(tokens @ table.T)
    expected = deviation * math.sqrt(2 / w)
    kept = {name: _kept_by(name, table, seed=seed) for name in _MATRICES}
    return Lesson(
        table=LessonTable(
            ("inner product", "value"),
            [
                *_sizes(table, tokens).items(),
                *((f"scores that follow p·p, {name} matrices", r) for name, r in kept.items()),
            ],
        ),
        chart=_by_distance(table, cross),
        caption="Inner products of positions by their distance, and the typical size of one of a "
        "random word with a position.",
        checks=[
            *_alike(table),
            near("typical x·p against p·p", cross / (w / 2), expected, within=0.15 * expected),
            above("scores that follow p·p, one shared matrix", kept["shared"], 0.5),
            below("scores that follow p·p, separate matrices", abs(kept["separate"]), 0.35),
        ],
        see=[
            "attention/positions/sinusoidal.py",
            "models/blocks/embedding.py",
            "recipes/positions.toml",
        ],
    )


def _sizes(table: Tensor, tokens: Tensor) -> dict[str, float]:
    by_distance, among = table @ table[0], tokens @ tokens.T
    different = among[~torch.eye(len(tokens), dtype=torch.bool)]
    return {
        "p·p, the same place": float(by_distance[0]),
        "p·p, neighbours": float(by_distance[1]),
        f"p·p, {PLACES - 1} apart": float(by_distance[-1]),
        "x·p, typical": _typical(tokens @ table.T),
        "x·x, the same word": float(among.diagonal().mean()),
        "x·x, different words, typical": _typical(different),
    }


def _typical(products: Tensor) -> float:
    return float(products.square().mean().sqrt())


def _by_distance(table: Tensor, cross: float) -> Draw:
    values = {"p·p": (table @ table[0]).tolist(), "x·p, typical": [cross] * PLACES}
    return curves(
        [
            {"distance, places": d, "inner product": value, "": name}
            for name, found in values.items()
            for d, value in enumerate(found)
        ],
        x="distance, places",
        y="inner product",
        series="",
    )


def _alike(table: Tensor) -> list[Check]:
    """What holds of positions among themselves."""
    products, half = table @ table.T, table.shape[1] / 2
    by_distance = products[0]
    neighbours = float(by_distance[1])
    return [
        near("p·p of a place with itself", products.diagonal(), [half] * PLACES, within=1e-4),
        below("p·p at one distance differs between places by", _unlike(products), 1e-4),
        below("neighbours, less than the place itself", neighbours, half),
        above("neighbours, more than any farther", neighbours, float(by_distance[2:].max())),
        above("distances at which p·p rises again", _rises(by_distance), 1),
    ]


def waves(width: int, positions: int) -> Tensor:
    """(n,w): the first positions."""
    module = Sinusoidal().build_vectors(width=width, context=positions)
    assert isinstance(module, Waves)
    return module.table.double()


def _starting_words(deviation: float, width: int, *, seed: int) -> Tensor:
    """(v,w): vectors of words as a model starts with them, before anything is learnt."""
    embedding = Embedding(
        WORDS, width=width, context=PLACES, positions=Sinusoidal(), dropout=0.0
    ).requires_grad_(False)
    init_weights(embedding, seed=seed, layers=1, deviation=deviation)
    return embedding.tokens.weight.double()


def _unlike(products: Tensor) -> float:
    """The largest difference between two pairs of places of one distance."""
    diagonals = [products.diagonal(d) for d in range(len(products) - 1)]
    return max(float(one.max() - one.min()) for one in diagonals)


def _rises(by_distance: Tensor) -> int:
    return int((by_distance.diff() > 0).sum())


_MATRICES: dict[str, Projections] = {"shared": "shared-qk", "separate": "separate"}


@torch.no_grad()
def _kept_by(matrices: str, table: Tensor, *, seed: int) -> float:
    """The correlation of starting scores with p·p, the mean over draws of the matrices."""
    shape = HeadShape(width=table.shape[1], heads=1, biases=False)
    wanted = (table @ table.T).flatten()
    mixer = build_mixer(Dot(), shape, projections=_MATRICES[matrices]).double()
    assert isinstance(mixer, MultiHeadAttention)
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(DRAWS):
        for matrix in (mixer.query, *([] if mixer.key is None else [mixer.key])):
            matrix.weight.normal_(std=shape.model_width**-0.5, generator=generator)
        k, _ = mixer.keys_and_values(table[None])
        scores = mixer.rule.scores(mixer.query(table)[None, None], k).flatten()
        found.append(float(torch.corrcoef(torch.stack((scores, wanted)))[0, 1]))
    return sum(found) / len(found)


@exercise("sinusoids")
def sinusoids_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    steps = int(torch.randint(1, 6, (1,), generator=generator))
    table = waves(4, 50)

    def mark(answer: Answer) -> Mark:
        moved = table[:-steps] @ answer["M"].T
        missed = far(moved, table[steps:])
        return Mark(
            missed, 1e-3, f"Tried on {len(moved)} places, M misses by at most {missed:.2g}."
        )

    return ExerciseSheet(
        task=f"Sinusoidal positions of width 4 are p_t = (sin t, cos t, sin t/100, cos t/100). "
        f"Find one matrix M (4 × 4) that moves every position by {steps}: p_(t+{steps}) = M p_t "
        "for all t, to 0.001.",
        given={"steps": steps},
        slots=(Slot("M", (4, 4)),),
        mark=mark,
    )
