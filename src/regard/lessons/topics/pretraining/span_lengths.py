"""Span lengths of SpanBERT: geometric, at most ten words, with the tail resampled or clipped.

p(l) = 0.2 · 0.8^{l−1} / (1 − 0.8¹⁰),  l = 1 … 10          Joshi et al., 2020
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from regard.lessons import (
    Answer,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    above,
    bar_chart,
    below,
    equal,
    exercise,
    lesson,
    near,
)
from regard.objectives import Vocabulary
from regard.objectives.spanbert import SpanBert
from regard.objectives.words import WordSpans, find_words

REPEATS = 130
"Repetitions of three words, the third of three tokens, in a sequence."
SEQUENCES = 60
MAX_SHOWN = 12
"Span lengths in table and chart."
TOLERANCE = 0.006

Distribution = NDArray[np.float64]


@lesson("span-lengths", topic="pretraining", title="Lengths of masked spans")
def span_lengths(
    *,
    geometric_p: Annotated[float, Range(0.05, 0.9)] = 0.2,
    max_span_words: Annotated[int, Range(2, 30)] = 10,
    seed: Seed = 0,
) -> Lesson:
    """How long are the spans that SpanBERT masks, on average?

    Lengths are geometric, Geo(0.2), and at most ten words. Longer draws can be handled in two ways:
    resampled, their probability is spread over all lengths in proportion and the mean is 3.80, as
    in the paper; clipped to ten, it accumulates there and the mean is 4.46. Both are described as
    "truncated at ten", and only the mean reveals which was used.

    In a sequence of text the mean is slightly smaller still: a long span fits between others less
    often than a short one, and the last is shortened to the masking budget of 15 %.
    """
    objective = SpanBert(geometric_p=geometric_p, max_span_words=max_span_words)
    resampled, clipped = objective.length_distribution(), _clipped(objective)
    words, generator = _words(), np.random.default_rng(seed)
    begins, ends = set(words.begins.tolist()), set(words.ends.tolist())
    sequences = [objective.draw_spans(words, generator) for _ in range(SEQUENCES)]
    spans = [span for sequence in sequences for span in sequence]
    lengths = np.array([len(begins & set(range(*span))) for span in spans])
    fractions = np.bincount(lengths, minlength=max_span_words + 1)[1:] / len(lengths)
    paper = SpanBert()
    columns = (_geometric(objective), resampled, clipped, fractions)
    rows = [
        (length, *map(float, probabilities))
        for length, *probabilities in zip(range(1, max_span_words + 1), *columns, strict=True)
        if length <= MAX_SHOWN
    ]
    means = ("mean", 1 / geometric_p, _mean(resampled), _mean(clipped), float(lengths.mean()))
    return Lesson(
        table=LessonTable(
            ("words", "geometric", "resampled", "clipped", "in sequences"),
            [*rows, means],
        ),
        chart=bar_chart(
            [
                {
                    "length": f"{length} word{'s' if length > 1 else ''}",
                    "probability": float(probabilities[length - 1]),
                    "tail": tail,
                }
                for length in range(1, min(max_span_words, MAX_SHOWN) + 1)
                for tail, probabilities in (("resampled", resampled), ("clipped", clipped))
            ],
            name="length",
            value="probability",
            series="tail",
        ),
        caption="Probability of each span length, in words, when longer draws are resampled and "
        "when they are clipped to the maximum.",
        checks=[
            near(
                "Geo(0.2), resampled above 10: mean",
                _mean(paper.length_distribution()),
                3.80,
                within=5e-3,
            ),
            near("Geo(0.2), clipped to 10: mean", _mean(_clipped(paper)), 4.46, within=5e-3),
            near(
                "resampled: mean vs closed form",
                _mean(resampled),
                _closed_form_mean(geometric_p, max_span_words),
                within=1e-9,
            ),
            near(
                "clipped: mean vs closed form",
                _mean(clipped),
                (1 - (1 - geometric_p) ** max_span_words) / geometric_p,
                within=1e-9,
            ),
            below(
                "mean in sequences",
                float(lengths.mean()),
                _mean(resampled) + 5 * float(lengths.std() / np.sqrt(len(lengths))),
            ),
            equal(
                "spans that begin or end inside a word",
                sum(span.begin not in begins or span.end not in ends for span in spans),
                0,
            ),
            above(
                "smallest gap between two spans, tokens",
                min(b.begin - a.end for sequence in sequences for a, b in pairwise(sequence)),
                1,
            ),
            below(
                "most masked tokens in a sequence",
                max(sum(span.size for span in sequence) for sequence in sequences),
                objective.budget(len(words.ids)),
            ),
        ],
        see_also=[
            "objectives/spanbert.py",
            "objectives/words.py",
            "recipes/full/masked-vs-spanbert.toml",
        ],
    )


def _geometric(objective: SpanBert) -> Distribution:
    """The geometric distribution without its tail; sums to less than 1."""
    return objective.length_distribution() * (1 - _tail(objective))


def _clipped(objective: SpanBert) -> Distribution:
    probabilities = _geometric(objective)
    probabilities[-1] += _tail(objective)
    return probabilities


def _tail(objective: SpanBert) -> float:
    """Probability of a draw above the maximum."""
    return float((1 - objective.geometric_p) ** objective.max_span_words)


def _mean(distribution: Distribution) -> float:
    return float(distribution @ np.arange(1, len(distribution) + 1))


def _closed_form_mean(p: float, n: int) -> float:
    """1/p − n qⁿ/(1 − qⁿ), q = 1 − p."""
    return 1 / p - n * (1 - p) ** n / (1 - (1 - p) ** n)


def _words() -> WordSpans:
    """The words of a sequence in which every third has three tokens."""
    vocabulary = Vocabulary(
        size=5,
        start=0,
        stop=1,
        mask=2,
        specials=frozenset({0, 1, 2}),
        pieces=("", "", "", " be", "gin"),
    )
    return find_words(np.array([3, 3, 3, 4, 4] * REPEATS), vocabulary)


@exercise("span-lengths")
def span_lengths_exercise(seed: int) -> ExerciseSheet:
    generator = np.random.default_rng(seed)
    geometric_p = float(generator.integers(2, 7)) / 10
    max_span_words = int(generator.integers(3, 6))
    objective = SpanBert(geometric_p=geometric_p, max_span_words=max_span_words)
    target = [_mean(objective.length_distribution()), _mean(_clipped(objective))]

    def mark(answer: Answer) -> Mark:
        means = [float(answer[name]) for name in ("resampled", "clipped")]
        errors = [abs(a - b) for a, b in zip(means, target, strict=True)]
        feedback = f"Error, resampled: {errors[0]:.3f} words; clipped: {errors[1]:.3f} words."
        if max(abs(a - b) for a, b in zip(means, target[::-1], strict=True)) < TOLERANCE:
            feedback += " The two are swapped."
        return Mark(max(errors), TOLERANCE, feedback)

    return ExerciseSheet(
        task="Span lengths are geometric: a span ends after each word with probability "
        "geometric_p. Find the mean length when draws above max_span_words are redrawn "
        "(resampled), and when they are set to max_span_words (clipped), to two decimals.",
        given={"geometric_p": geometric_p, "max_span_words": max_span_words},
        slots=(Slot("resampled", ()), Slot("clipped", ())),
        mark=mark,
    )
