"""SpanBERT's span lengths: geometric, cut off at ten words, and what becomes of the tail.

p(l) = 0.2 · 0.8^{l−1} / (1 − 0.8¹⁰),  l = 1 … 10          Joshi et al., 2020
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Lesson, LessonTable, above, below, equal, near
from regard.lessons.lesson_charts import bars
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.objectives import Vocabulary
from regard.objectives.spanbert import SpanBert
from regard.objectives.words import words_of

WORDS = 130
"Thirds of the words of a row that spans are drawn from."
ROWS = 60
SHOWN = 12
WITHIN = 0.006

Law = NDArray[np.float64]


@lesson("span-lengths", topic="pretraining", title="Lengths of hidden spans")
def span_lengths(
    *,
    ending: Annotated[float, Range(0.05, 0.9)] = 0.2,
    longest: Annotated[int, Range(2, 30)] = 10,
    seed: Seed = 0,
) -> Lesson:
    """How long are the spans that SpanBERT hides, on average?

    A length is geometric, Geo(0.2), and at most ten words. What of the longer ones? Drawn again,
    their share goes to all lengths alike and the mean is 3.80, the figure of the paper; counted as
    ten, they pile up there and the mean is 4.46. Both are told as "truncated at ten", and only the
    mean gives away which was meant.

    In a row of text the mean is a little smaller still: a long span fits between others less often
    than a short one, and the last is cut to the 15 % that may be hidden.
    """
    objective = SpanBert(ending=ending, longest=longest)
    law, piled = objective.lengths_law(), _piled(objective)
    drawn = _drawn(objective, seed=seed)
    counts = np.array([count for row in drawn for count in row.words])
    shares = np.bincount(counts, minlength=longest + 1)[1:] / len(counts)
    usual = SpanBert()
    each = zip(range(1, longest + 1), _geometric(objective), law, piled, shares, strict=True)
    means = ("mean", 1 / ending, _mean(law), _mean(piled), float(counts.mean()))
    return Lesson(
        table=LessonTable(
            ("words", "geometric", "drawn again", "piled onto the longest", "in rows of text"),
            [*((length, *map(float, some)) for length, *some in each if length <= SHOWN), means],
        ),
        chart=bars(
            _law_rows(law, piled),
            name="length",
            value="probability",
            series="tail",
        ),
        caption="Probability of each length of a span, in words, when longer draws are drawn "
        "again, and when they count as the longest.",
        checks=[
            near(
                "Geo(0.2), longer than 10 drawn again: mean",
                _mean(usual.lengths_law()),
                3.80,
                within=5e-3,
            ),
            near("piled onto 10: mean", _mean(_piled(usual)), 4.46, within=5e-3),
            near("mean by its closed form", _mean(law), _closed_mean(ending, longest), within=1e-9),
            near(
                "piled, by its closed form",
                _mean(piled),
                (1 - (1 - ending) ** longest) / ending,
                within=1e-9,
            ),
            below("mean in rows of text", float(counts.mean()), _mean(law) + 5 * _error(counts)),
            equal("spans that begin or end inside a word", sum(row.torn for row in drawn), 0),
            above("least distance between two spans, tokens", min(row.gap for row in drawn), 1),
            below("most tokens hidden of a row", max(row.hidden for row in drawn), drawn[0].budget),
        ],
        see=[
            "objectives/spanbert.py",
            "objectives/words.py",
            "recipes/full/masked-vs-spanbert.toml",
        ],
    )


def _law_rows(law: Law, piled: Law) -> list[dict[str, Any]]:
    laws = {"drawn again": law, "piled": piled}
    return [
        {
            "length": f"{length} word{'s' if length > 1 else ''}",
            "probability": float(shares[length - 1]),
            "tail": tail,
        }
        for length in range(1, min(len(law), SHOWN) + 1)
        for tail, shares in laws.items()
    ]


def _geometric(objective: SpanBert) -> Law:
    """Before anything is done about the tail."""
    return objective.lengths_law() * (1 - _tail(objective))


def _piled(objective: SpanBert) -> Law:
    law = _geometric(objective)
    law[-1] += _tail(objective)
    return law


def _tail(objective: SpanBert) -> float:
    """The probability of more words than the longest has."""
    return float((1 - objective.ending) ** objective.longest)


def _mean(law: Law) -> float:
    return float(law @ np.arange(1, len(law) + 1))


def _closed_mean(p: float, n: int) -> float:
    """1/p − n qⁿ/(1 − qⁿ), q = 1 − p."""
    tail = (1 - p) ** n
    return 1 / p - n * tail / (1 - tail)


def _error(counts: NDArray[np.int64]) -> float:
    return float(counts.std() / np.sqrt(len(counts)))


class Drawn(NamedTuple):
    """The spans of one row."""

    words: list[int]
    "Of each span."
    torn: int
    "Spans that begin or end inside a word."
    gap: int
    "The fewest tokens between two spans."
    hidden: int
    budget: int


def _drawn(objective: SpanBert, *, seed: int) -> list[Drawn]:
    """Spans that the objective draws in rows of words, every third of which has three pieces."""
    vocabulary = Vocabulary(
        size=5,
        start=0,
        stop=1,
        mask=2,
        specials=frozenset({0, 1, 2}),
        pieces=("", "", "", " be", "gin"),
    )
    row = words_of(np.array([3, 3, 3, 4, 4] * WORDS), vocabulary)
    begins, ends = set(row.begins.tolist()), set(row.ends.tolist())
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(ROWS):
        spans = objective.drawn_spans(row, generator)
        found.append(
            Drawn(
                words=[len(begins & set(range(*span))) for span in spans],
                torn=sum(span.begin not in begins or span.end not in ends for span in spans),
                gap=min(b.begin - a.end for a, b in pairwise(spans)),
                hidden=sum(span.size for span in spans),
                budget=objective.budget(len(row.ids)),
            )
        )
    return found


@exercise("span-lengths")
def span_lengths_exercise(seed: int) -> ExerciseSheet:
    generator = np.random.default_rng(seed)
    ending = float(generator.integers(2, 7)) / 10
    longest = int(generator.integers(3, 6))
    objective = SpanBert(ending=ending, longest=longest)
    wanted = [_mean(objective.lengths_law()), _mean(_piled(objective))]

    def mark(answer: Answer) -> Mark:
        found = [float(answer[name]) for name in ("drawn_again", "piled")]
        errors = [abs(a - b) for a, b in zip(found, wanted, strict=True)]
        says = f"Drawn again: off by {errors[0]:.3f} words; piled: off by {errors[1]:.3f}."
        if max(abs(a - b) for a, b in zip(found, wanted[::-1], strict=True)) < WITHIN:
            says += " You have them the wrong way round."
        return Mark(max(errors), WITHIN, says)

    return ExerciseSheet(
        task="The length of a span is geometric: it ends after each word with probability ending. "
        "Find the mean length when draws longer than longest are drawn again (drawn_again), and "
        "when they count as longest (piled), to two decimals.",
        given={"ending": ending, "longest": longest},
        slots=(Slot("drawn_again", ()), Slot("piled", ())),
        mark=mark,
    )
