"""Sinusoidal positions: inner products among them and with token embeddings.

    p_i · p_j = Σ_c cos(ω_c (i − j))                                    Vaswani et al., 2017

Shapes: n positions, w model width, v vocabulary.
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
from regard.attention.positions.sinusoidal import Sinusoidal, SinusoidalEmbedding
from regard.lessons import (
    Answer,
    Check,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    above,
    below,
    exercise,
    lesson,
    line_chart,
    max_difference,
    near,
)
from regard.models.blocks.embedding import Embedding
from regard.models.init_weights import init_weights

LENGTH = 64
VOCABULARY = 300
DRAWS = 12
"Initialisations over which a correlation is averaged."


@lesson("sinusoids", topic="positions", title="Nearby sinusoids are similar")
def sinusoids(
    *,
    half_width: Annotated[int, Range(16, 128)] = 32,
    std: Annotated[float, Range(0.01, 1)] = 1.0,
    seed: Seed = 0,
) -> Lesson:
    """What do inner products of sinusoidal positions say about distance?

    p_i·p_j = Σ_c cos(ω_c (i − j)) depends on the distance alone, is largest for a position with
    itself (half the width) and at first falls with distance. It does not fall monotonically:
    cosines are periodic, so distant positions may be slightly more similar than closer ones. Random
    initial token embeddings x are nearly orthogonal to any given vector, so x·p is small relative
    to p·p at initialisation: about √(2/w) times the standard deviation of x.

    This holds for the embeddings. Queries and keys are projections of them, which are independent
    at initialisation: only with one shared projection do scores fall with distance from the first
    step on; with separate projections this has to be learned.
    """
    w = 2 * half_width
    table, tokens = sinusoidal_table(w, LENGTH), _initial_embeddings(std, w, seed=seed)
    cross = _rms(tokens @ table.T)
    by_distance = {"p·p": (table @ table[0]).tolist(), "x·p, RMS": [cross] * LENGTH}
    expected = std * math.sqrt(2 / w)
    correlations = {name: _score_correlation(name, table, seed=seed) for name in PROJECTIONS}
    return Lesson(
        table=LessonTable(
            ("quantity", "value"),
            [
                *_inner_products(table, tokens).items(),
                *(
                    (f"correlation of scores with p·p, {name}", r)
                    for name, r in correlations.items()
                ),
            ],
        ),
        chart=line_chart(
            [
                {"distance, positions": d, "inner product": value, "": name}
                for name, products in by_distance.items()
                for d, value in enumerate(products)
            ],
            x="distance, positions",
            y="inner product",
            series="",
        ),
        caption="Inner product of two positions against their distance, and the root mean square "
        "inner product of a random token embedding with a position.",
        checks=[
            *_position_checks(table),
            near("RMS of x·p ÷ p·p", cross / (w / 2), expected, within=0.15 * expected),
            above("correlation of scores with p·p, shared projection", correlations["shared"], 0.5),
            below(
                "|correlation| of scores with p·p, separate projections",
                abs(correlations["separate"]),
                0.35,
            ),
        ],
        see_also=[
            "attention/positions/sinusoidal.py",
            "models/blocks/embedding.py",
            "recipes/positions.toml",
        ],
    )


def _inner_products(table: Tensor, tokens: Tensor) -> dict[str, float]:
    by_distance, gram = table @ table[0], tokens @ tokens.T
    different = gram[~torch.eye(len(tokens), dtype=torch.bool)]
    return {
        "p·p, same position": float(by_distance[0]),
        "p·p, neighbours": float(by_distance[1]),
        f"p·p, {LENGTH - 1} apart": float(by_distance[-1]),
        "x·p, RMS": _rms(tokens @ table.T),
        "x·x, same token": float(gram.diagonal().mean()),
        "x·x, different tokens, RMS": _rms(different),
    }


def _rms(products: Tensor) -> float:
    return float(products.square().mean().sqrt())


def _position_checks(table: Tensor) -> list[Check]:
    """Properties of the inner products among positions."""
    products, half = table @ table.T, table.shape[1] / 2
    by_distance = products[0]
    neighbours = float(by_distance[1])
    return [
        near("p·p of a position with itself", products.diagonal(), [half] * LENGTH, within=1e-4),
        below("variation of p·p at equal distance", _variation_at_distance(products), 1e-4),
        below("p·p of neighbours, below p·p of the same position", neighbours, half),
        above(
            "p·p of neighbours, above any greater distance",
            neighbours,
            float(by_distance[2:].max()),
        ),
        above("distances at which p·p rises again", (by_distance.diff() > 0).sum(), 1),
    ]


def sinusoidal_table(width: int, positions: int) -> Tensor:
    """(n,w): embeddings of the first n positions."""
    module = Sinusoidal().build_embedding(width=width, context=positions)
    assert isinstance(module, SinusoidalEmbedding)
    return module.table.double()


def _initial_embeddings(std: float, width: int, *, seed: int) -> Tensor:
    """(v,w): token embeddings of a model at initialisation."""
    embedding = Embedding(
        VOCABULARY, width=width, context=LENGTH, positions=Sinusoidal(), dropout=0.0
    ).requires_grad_(False)
    init_weights(embedding, seed=seed, layers=1, std=std)
    return embedding.tokens.weight.double()


def _variation_at_distance(products: Tensor) -> float:
    """Largest difference between inner products of pairs at equal distance."""
    diagonals = [products.diagonal(d) for d in range(len(products) - 1)]
    return max(float(diagonal.max() - diagonal.min()) for diagonal in diagonals)


PROJECTIONS: dict[str, Projections] = {"shared": "shared-qk", "separate": "separate"}


@torch.no_grad()
def _score_correlation(projections: str, table: Tensor, *, seed: int) -> float:
    """Correlation of scores at initialisation with p·p, averaged over initialisations."""
    shape = HeadShape(width=table.shape[1], heads=1, biases=False)
    target = (table @ table.T).flatten()
    mixer = build_mixer(Dot(), shape, projections=PROJECTIONS[projections]).double()
    assert isinstance(mixer, MultiHeadAttention)
    generator = torch.Generator().manual_seed(seed)
    correlations = []
    for _ in range(DRAWS):
        for layer in (mixer.query, *([] if mixer.key is None else [mixer.key])):
            layer.weight.normal_(std=shape.model_width**-0.5, generator=generator)
        k, _ = mixer.project_keys_values(table[None])
        scores = mixer.function.scores(mixer.query(table)[None, None], k).flatten()
        correlations.append(float(torch.corrcoef(torch.stack((scores, target)))[0, 1]))
    return sum(correlations) / len(correlations)


@exercise("sinusoids")
def sinusoids_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    steps = int(torch.randint(1, 6, (1,), generator=generator))
    table = sinusoidal_table(4, 50)

    def mark(answer: Answer) -> Mark:
        shifted = table[:-steps] @ answer["M"].T
        error = max_difference(shifted, table[steps:])
        return Mark(error, 1e-3, f"Largest error of M over {len(shifted)} positions: {error:.2g}.")

    return ExerciseSheet(
        task=f"Sinusoidal positions of width 4 are p_t = (sin t, cos t, sin t/100, cos t/100). "
        f"Find one matrix M (4 × 4) that shifts every position by {steps}: p_(t+{steps}) = M p_t "
        "for all t, within 0.001.",
        given={"steps": steps},
        slots=(Slot("M", (4, 4)),),
        mark=mark,
    )
