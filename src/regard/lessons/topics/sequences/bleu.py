"""BLEU by hand: n-grams that the reference has too, a geometric mean, a penalty for brevity.

    BLEU = BP · exp(¼ Σ log pₙ), n = 1 … 4,  BP = min(1, e^(1 − r/c))      Papineni et al., 2002

c words written, r words of the reference.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from regard.evaluation.metrics.bleu_and_rouge import (
    BLEU_COLUMNS,
    TranslationMetric,
    bleu,
    sentence_rows,
)
from regard.evaluation.statistics.seed_tables import Values
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Lesson, LessonTable, above, equal, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range
from regard.lessons.registry import lesson

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
    """How is BLEU worked out, and what does one wrong word cost?

    Of twelve words the second is wrong: 11 of 12 single words are right, 9 of 11 pairs, 8 of 10
    threes, 7 of 9 fours, and the length is right, so BLEU = (11/12 · 9/11 · 8/10 · 7/9)^¼ = 0.8265.
    A word in the middle stands in four fours and costs more, the first and the last stand in one
    and cost less. Repeating a word does not pay, since a match counts at most as often as the
    reference has it; being brief does not, since BP falls below 1.

    BLEU belongs to a whole test set: its counts are added up first. The mean of single sentences'
    BLEU is another number.
    """
    written = [WRONG if place == wrong else word for place, word in enumerate(REFERENCE, start=1)]
    written = written[: len(REFERENCE) - missing]
    counts = _counts(written)
    usual = _counts([REFERENCE[0], WRONG, *REFERENCE[2:]])
    brevity = min(1.0, math.exp(1 - len(REFERENCE) / len(written)))
    stuttered = _counts(["the"] * len(REFERENCE))
    together = usual + _counts(REFERENCE[:6])
    alone = (_score(usual) + _score(_counts(REFERENCE[:6]))) / 2
    return Lesson(
        table=LessonTable(
            ("", "matches", "of", "pₙ"),
            [
                *(
                    (f"{n}-grams", int(counts[1 + n]), int(counts[5 + n]), _precision(counts, n))
                    for n in ORDERS
                ),
                ("BP", len(written), len(REFERENCE), brevity),
                ("BLEU", "", "", _score(counts)),
            ],
        ),
        chart=curves(
            _one_fault_each(),
            x="number of the word",
            y="BLEU",
            series="what",
        ),
        caption="BLEU against the place of the one wrong word, and against where the sentence "
        "breaks off.",
        checks=[
            equal("matches, second word wrong", usual[2:6].astype(int).tolist(), [11, 9, 8, 7]),
            equal("of", usual[6:10].astype(int).tolist(), [12, 11, 10, 9]),
            near("BP", _score(usual) / _mean_precision(usual), 1, within=1e-12),
            near("BLEU", _score(usual), 0.8265, within=5e-5),
            near("as (7·8)/(10·12) to the ¼", _score(usual), (56 / 120) ** 0.25, within=1e-12),
            near(
                "BP · exp(mean of log pₙ)",
                _score(counts),
                brevity * _mean_precision(counts),
                within=1e-9,
            ),
            near(
                "half the words, none wrong: BP alone",
                _score(_counts(REFERENCE[:6])),
                math.exp(-1),
                within=1e-9,
            ),
            equal('"the" twelve times: matches', stuttered[2:6].astype(int).tolist(), [2, 0, 0, 0]),
            above("mean of two sentences − BLEU of both", abs(alone - _score(together)), 0.01),
        ],
        see=[
            "evaluation/metrics/bleu_and_rouge.py",
            "tasks/writing/translation.py",
            "recipes/translation.toml",
        ],
    )


def _one_fault_each() -> list[dict[str, Any]]:
    """BLEU of the reference with one word wrong, or broken off after one; a row for each."""
    faults = {
        "this word alone is wrong": [
            [*REFERENCE[: n - 1], WRONG, *REFERENCE[n:]] for n in range(1, len(REFERENCE) + 1)
        ],
        "this word is the last that is written": [
            REFERENCE[:n] for n in range(1, len(REFERENCE) + 1)
        ],
    }
    return [
        {"number of the word": n, "BLEU": _score(_counts(written)), "what": what}
        for what, texts in faults.items()
        for n, written in enumerate(texts, start=1)
        if len(written) > len(ORDERS)
    ]


def _counts(written: list[str], reference: list[str] = REFERENCE) -> Values:
    """sacreBLEU's: words written, words of the reference, 4 matches, 4 counts of n-grams."""
    rows = sentence_rows([" ".join(written)], [[" ".join(reference)]])
    return TranslationMetric().columns(rows)[:BLEU_COLUMNS, 0]


def _score(counts: Values) -> float:
    """0 to 1, as papers of the time have it; sacreBLEU says 100 times as much."""
    return float(bleu(counts)) / 100


def _precision(counts: Values, n: int) -> float:
    """pₙ; where nothing matches, what the smoothing of `bleu` counts."""
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
    written = reference[: len(reference) - int(generator.integers(0, 3))]
    others = [place for place in range(1, len(written) - 1) if written[place] != "the"]
    written[int(generator.choice(others))] = "the"  # one more than the reference has
    counts = _counts(written, reference)

    def mark(answer: Answer) -> Mark:
        matches, of = answer["matches"].numpy(), answer["of"].numpy()
        wrong = [int((matches != counts[2:6]).sum()), int((of != counts[6:10]).sum())]
        off = abs(float(answer["bleu"]) - _score(counts))
        says = f"{wrong[0]} matches and {wrong[1]} counts are wrong; BLEU is off by {off:.4f}."
        return Mark(float(sum(wrong)) + off, 5e-4, says)

    return ExerciseSheet(
        task="Count the 1-, 2-, 3- and 4-grams of what was written, and how many of each the "
        "reference has too (none more often than the reference has it); then work out BLEU, 0 to "
        "1, to three decimals.",
        given={"written": " ".join(written), "reference": " ".join(reference)},
        slots=(Slot("matches", (4,)), Slot("of", (4,)), Slot("bleu", ())),
        mark=mark,
    )
