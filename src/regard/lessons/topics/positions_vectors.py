"""Absolute positions: which sinusoids are alike, and what adding or concatenating does to scores.

    add: (x₁ + p₁)·(x₂ + p₂) = x₁·x₂ + x₁·p₂ + p₁·x₂ + p₁·p₂
    concatenate: [x₁; p₁]·[x₂; p₂] = x₁·x₂ + p₁·p₂                  Vaswani et al., 2017

Shapes: n places, w width of a vector.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor, nn

from regard.attention.kinds import Projections
from regard.attention.kinds.dot import Dot
from regard.attention.multi_head import MultiHeadAttention, build_mixer
from regard.attention.positions.sinusoidal import Sinusoidal, Waves
from regard.attention.rule import HeadShape
from regard.lessons.catalogue import lesson
from regard.lessons.charts import bars, curves
from regard.lessons.exercise import Answer, Mark, Posed, Slot, Weights, exercise, far, numbers
from regard.lessons.lesson import Lesson, Table, above, below, near
from regard.lessons.parameters import Range, Seed
from regard.lessons.plain import names, scores_of, weights_of
from regard.model.embedding import Embedding

PLACES = 64
DRAWS = 12
"Of starting values, over which a mean is taken."
WORDS = 4


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
    table = _waves(w, PLACES)
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


def _waves(width: int, places: int) -> Tensor:
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
    table = _waves(4, 50)

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
    ids, places = torch.arange(WORDS)[None], torch.tensor([[first, second, 0, 31]])
    x, p = added.tokens(ids)[0], _waves(w, 32)[places[0]]
    pairs = {"x₁·x₂": (x, x), "x₁·p₂": (x, p), "p₁·x₂": (p, x), "p₁·p₂": (p, p)}
    values = {name: _product(one[0], other[1]) for name, (one, other) in pairs.items()}
    sums, together = added(ids, places)[0], beside(ids, places)[0]
    sum_score, beside_score = _product(sums[0], sums[1]), _product(together[0], together[1])
    apart = weights_of(x[0], x) * weights_of(p[0], p)
    matrix = numbers(3, w, seed=seed)
    by_sum = added(ids, places) @ matrix.T
    by_both = beside(ids, places) @ torch.cat((matrix, matrix), dim=1).T
    in_both = {"x₁·x₂", "p₁·p₂"}
    return Lesson(
        table=Table(
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
                "weights, concatenated, are those of words times those of positions",
                weights_of(together[0], together),
                apart / apart.sum(),
                within=1e-9,
            ),
            near("[W W][x; p] against W(x + p)", by_both, by_sum, within=1e-9),
        ],
        see=["model/embedding.py", "attention/positions/__init__.py", "recipes/positions.toml"],
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
def add_or_concatenate_exercise(seed: int) -> Posed:
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

    return Posed(
        task="Three words have the vectors x and stand at places with the vectors p. Give the "
        "scores of all pairs, 3 × 3, as plain inner products: with positions added, and with "
        "positions concatenated. 0.01 is near enough.",
        given={"x": x, "p": p},
        slots=(Slot("added", (3, 3)), Slot("concatenated", (3, 3))),
        mark=mark,
    )
