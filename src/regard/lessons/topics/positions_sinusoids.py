"""Sinusoidal positions: which of them are alike, and what a word's vector makes of them.

    p_i · p_j = Σ_c cos(ω_c (i − j))                                    Vaswani et al., 2017

Shapes: n places, w width of a vector, v words.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.kinds import Projections
from regard.attention.kinds.dot import Dot
from regard.attention.multi_head import MultiHeadAttention, build_mixer
from regard.attention.positions.sinusoidal import Sinusoidal, Waves
from regard.attention.rule import HeadShape
from regard.lessons.catalogue import lesson
from regard.lessons.charts import curves
from regard.lessons.exercise import Answer, Mark, Posed, Slot, exercise, far
from regard.lessons.lesson import Lesson, Table, above, below, near
from regard.lessons.parameters import Range, Seed


PLACES = 64
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
    table = waves(w, PLACES)
    products = table @ table.T
    by_distance = products[0]
    tokens = _tokens(deviation, w, seed=seed)
    cross = float((tokens @ table.T).square().mean().sqrt())
    among = tokens @ tokens.T
    different = among[~torch.eye(len(tokens), dtype=torch.bool)]
    sizes = {
        "p·p, the same place": w / 2,
        "p·p, neighbours": float(by_distance[1]),
        f"p·p, {PLACES - 1} apart": float(by_distance[-1]),
        "x·p, typical": cross,
        "x·x, the same word": float(among.diagonal().mean()),
        "x·x, different words, typical": float(different.square().mean().sqrt()),
    }
    kept = {name: _kept_by(name, table, seed=seed) for name in _MATRICES}
    return Lesson(
        table=Table(
            ("inner product", "value"),
            [
                *sizes.items(),
                *((f"scores that follow p·p, {name} matrices", r) for name, r in kept.items()),
            ],
        ),
        chart=curves(
            [
                {"distance": d, "inner product": value, "": name}
                for name, values in (
                    ("p·p", by_distance.tolist()),
                    ("x·p, typical", [cross] * PLACES),
                )
                for d, value in enumerate(values)
            ],
            x="distance",
            y="inner product",
            series="",
        ),
        caption="Inner products of positions by their distance, and the typical size of one of a "
        "random word with a position.",
        checks=[
            near("p·p of a place with itself", products.diagonal(), [w / 2] * PLACES, within=1e-4),
            below("p·p at one distance differs between places by", _unlike(products), 1e-4),
            below("neighbours, less than the place itself", float(by_distance[1]), w / 2),
            above(
                "neighbours, more than any farther",
                float(by_distance[1]),
                float(by_distance[2:].max()),
            ),
            above("distances at which p·p rises again", _rises(by_distance), 1),
            near(
                "typical x·p against p·p",
                cross / (w / 2),
                deviation * math.sqrt(2 / w),
                within=0.15 * deviation * math.sqrt(2 / w),
            ),
            above("scores that follow p·p, one shared matrix", kept["shared"], 0.5),
            below("scores that follow p·p, separate matrices", abs(kept["separate"]), 0.35),
        ],
        see=["attention/positions/sinusoidal.py", "model/embedding.py", "recipes/positions.toml"],
    )


def waves(width: int, places: int) -> Tensor:
    """(n,w): the first positions."""
    module = Sinusoidal().build_vectors(width=width, context=places)
    assert isinstance(module, Waves)
    return module.table.double()


def _tokens(deviation: float, width: int, *, seed: int) -> Tensor:
    """(v,w): vectors of words before anything is learnt."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(300, width, generator=generator, dtype=torch.float64)
    return deviation * drawn


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
def sinusoids_exercise(seed: int) -> Posed:
    generator = torch.Generator().manual_seed(seed)
    steps = int(torch.randint(1, 6, (1,), generator=generator))
    table = waves(4, 50)

    def mark(answer: Answer) -> Mark:
        moved = table[:-steps] @ answer["M"].T
        missed = far(moved, table[steps:])
        return Mark(
            missed, 1e-3, f"Tried on {len(moved)} places, M misses by at most {missed:.2g}."
        )

    return Posed(
        task=f"Sinusoidal positions of width 4 are p_t = (sin t, cos t, sin t/100, cos t/100). "
        f"Find one matrix M (4 × 4) that moves every position by {steps}: p_(t+{steps}) = M p_t "
        "for all t, to 0.001.",
        given={"steps": steps},
        slots=(Slot("M", (4, 4)),),
        mark=mark,
    )
