"""BLEU by hand: clipped n-gram precisions, their geometric mean, and the brevity penalty.

    BLEU = BP · exp(¼ Σ log pₙ), n = 1 … 4,  BP = min(1, e^(1 − r/c))      Papineni et al., 2002

c words of the hypothesis, r words of the reference.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from regard.evaluation.metrics.bleu_and_rouge import (
    BLEU_STATISTICS,
    TranslationMetric,
    bleu,
    sentence_rows,
)
from regard.evaluation.statistics.seed_tables import Values
from regard.lessons import (
    Answer,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Slot,
    above,
    equal,
    exercise,
    lesson,
    line_chart,
    near,
)

SENTENCE = "a small boat came slowly down the river in the early light"
REFERENCE = SENTENCE.split()
WRONG = "green"
ORDERS = range(1, 5)


@lesson("bleu-by-hand", topic="sequences and scores", title="BLEU by hand")
def bleu_by_hand(
    *,
    wrong: Annotated[int, Range(1, 12)] = 2,
    missing: Annotated[int, Range(0, 7)] = 0,
) -> Lesson:
    """How is BLEU computed, and what does one wrong word cost?

    With the second of twelve words wrong, 11 of 12 unigrams match, 9 of 11 bigrams, 8 of 10
    trigrams and 7 of 9 4-grams; the length is right, so BLEU = (11/12 · 9/11 · 8/10 · 7/9)^¼ =
    0.8265. A word in the middle is part of four 4-grams and costs more; the first and the last are
    part of one and cost less. Repeating a word gains nothing, since matches are clipped to the
    count in the reference; short hypotheses gain nothing, since BP falls below 1.

    BLEU is a corpus-level score: counts are summed over the test set first. The mean of
    sentence-level BLEU is a different number.
    """
    hypothesis = [
        WRONG if position == wrong else word for position, word in enumerate(REFERENCE, start=1)
    ]
    hypothesis = hypothesis[: len(REFERENCE) - missing]
    counts = _counts(hypothesis)
    second_wrong = _counts([REFERENCE[0], WRONG, *REFERENCE[2:]])
    brevity = min(1.0, math.exp(1 - len(REFERENCE) / len(hypothesis)))
    repeated = _counts(["the"] * len(REFERENCE))
    corpus = second_wrong + _counts(REFERENCE[:6])
    sentence_mean = (_score(second_wrong) + _score(_counts(REFERENCE[:6]))) / 2
    return Lesson(
        table=LessonTable(
            ("", "matches", "total", "pₙ"),
            [
                *(
                    (f"{n}-grams", int(counts[1 + n]), int(counts[5 + n]), _precision(counts, n))
                    for n in ORDERS
                ),
                ("BP", len(hypothesis), len(REFERENCE), brevity),
                ("BLEU", "", "", _score(counts)),
            ],
        ),
        chart=line_chart(
            _single_errors(),
            x="word",
            y="BLEU",
            series="error",
        ),
        caption="BLEU against the index of the one wrong word, and of the last word of a truncated "
        "sentence.",
        checks=[
            equal(
                "matches, second word wrong", second_wrong[2:6].astype(int).tolist(), [11, 9, 8, 7]
            ),
            equal("total n-grams", second_wrong[6:10].astype(int).tolist(), [12, 11, 10, 9]),
            near(
                "BP, second word wrong",
                _score(second_wrong) / _mean_precision(second_wrong),
                1,
                within=1e-12,
            ),
            near("BLEU, second word wrong", _score(second_wrong), 0.8265, within=5e-5),
            near(
                "the same vs ((7·8)/(10·12))^¼",
                _score(second_wrong),
                (56 / 120) ** 0.25,
                within=1e-12,
            ),
            near(
                "BP · exp(mean of log pₙ)",
                _score(counts),
                brevity * _mean_precision(counts),
                within=1e-9,
            ),
            near(
                "first half of the reference: BP alone",
                _score(_counts(REFERENCE[:6])),
                math.exp(-1),
                within=1e-9,
            ),
            equal('"the" twelve times: matches', repeated[2:6].astype(int).tolist(), [2, 0, 0, 0]),
            above(
                "|mean of sentence BLEU − corpus BLEU|", abs(sentence_mean - _score(corpus)), 0.01
            ),
        ],
        see_also=[
            "evaluation/metrics/bleu_and_rouge.py",
            "tasks/text_generation/translation.py",
            "recipes/translation.toml",
        ],
    )


def _single_errors() -> list[dict[str, Any]]:
    """BLEU of the reference with one word wrong, or truncated after one; one row per error."""
    errors = {
        "this word is wrong": [
            [*REFERENCE[: n - 1], WRONG, *REFERENCE[n:]] for n in range(1, len(REFERENCE) + 1)
        ],
        "truncated after this word": [REFERENCE[:n] for n in range(1, len(REFERENCE) + 1)],
    }
    return [
        {"word": n, "BLEU": _score(_counts(hypothesis)), "error": error}
        for error, hypotheses in errors.items()
        for n, hypothesis in enumerate(hypotheses, start=1)
        if len(hypothesis) > len(ORDERS)
    ]


def _counts(hypothesis: list[str], reference: list[str] = REFERENCE) -> Values:
    """As sacreBLEU: words of hypothesis and reference, 4 matches, 4 totals of n-grams."""
    rows = sentence_rows([" ".join(hypothesis)], [[" ".join(reference)]])
    return TranslationMetric().statistics(rows)[:BLEU_STATISTICS, 0]


def _score(counts: Values) -> float:
    """From 0 to 1, as in the paper; sacreBLEU reports 100 times as much."""
    return float(bleu(counts)) / 100


def _precision(counts: Values, n: int) -> float:
    """pₙ; without a match, smoothed as in `bleu`."""
    matches = counts[1 + n]
    halvings = int((counts[2 : 2 + n] == 0).sum())
    return float((matches or 0.5**halvings) / counts[5 + n])


def _mean_precision(counts: Values) -> float:
    """The geometric mean of p₁ … p₄."""
    return math.exp(np.mean([math.log(_precision(counts, n)) for n in ORDERS]))


@exercise("bleu-by-hand")
def bleu_by_hand_exercise(seed: int) -> ExerciseSheet:
    generator = np.random.default_rng(seed)
    reference = generator.permutation(REFERENCE).tolist()
    hypothesis = reference[: len(reference) - int(generator.integers(0, 3))]
    candidates = [
        position for position in range(1, len(hypothesis) - 1) if hypothesis[position] != "the"
    ]
    hypothesis[int(generator.choice(candidates))] = "the"  # one more than in the reference
    counts = _counts(hypothesis, reference)

    def mark(answer: Answer) -> Mark:
        matches, totals = answer["matches"].numpy(), answer["totals"].numpy()
        wrong = [int((matches != counts[2:6]).sum()), int((totals != counts[6:10]).sum())]
        error = abs(float(answer["bleu"]) - _score(counts))
        feedback = f"{wrong[0]} matches and {wrong[1]} totals are wrong; BLEU error {error:.4f}."
        return Mark(float(sum(wrong)) + error, 5e-4, feedback)

    return ExerciseSheet(
        task="Count the 1-, 2-, 3- and 4-grams of the hypothesis (totals) and how many of each "
        "match the reference, clipped to their count there (matches); then compute BLEU, from 0 to "
        "1, to three decimals.",
        given={"hypothesis": " ".join(hypothesis), "reference": " ".join(reference)},
        slots=(Slot("matches", (4,)), Slot("totals", (4,)), Slot("bleu", ())),
        mark=mark,
    )
