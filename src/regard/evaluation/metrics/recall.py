"""Closed-book recall: exact match of answers from memory, by whether training text has the fact.

    exact_match             correct / n
    exact_match_seen        over questions whose answer is in the pretraining text
    exact_match_unseen      over all other questions, where an answer is a guess
    exact_match_answered    correct / answered, over questions answered with enough confidence
    coverage                answered / n

An answer is correct if it equals one of the truths after SQuAD's normalisation
(`question_answering.py`). The first three count withheld answers too: they score what the model
would say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.evaluation.metrics.fields import lists_of_texts, texts
from regard.evaluation.metrics.metric import RatioMetric, Row, metric_kind
from regard.evaluation.metrics.question_answering import exact_match_and_f1
from regard.evaluation.statistics.seed_tables import Values


@metric_kind(
    "recall",
    perfect=[
        {"predicted": "Ghent", "truths": ["Ghent"], "seen": True, "answered": True},
        {"predicted": "London", "truths": ["London"], "seen": False, "answered": True},
        {"predicted": "1822", "truths": ["1822", "in 1822"], "seen": True, "answered": True},
    ],
    bad=[
        {"predicted": "London", "truths": ["Ghent"], "seen": True, "answered": True},
        {"predicted": "Ghent", "truths": ["London"], "seen": False, "answered": False},
        {"predicted": "1823", "truths": ["1822", "in 1822"], "seen": True, "answered": False},
    ],
)
@dataclass(frozen=True, kw_only=True)
class RecallMetric(RatioMetric):
    """Exact match of answers from memory, by whether training text has the fact.

    Uses the fields `predicted`, `truths`, and where present `seen` and `answered`."""

    truth: ClassVar[str] = "truths"
    # Statistics: exact, one, and then seen, exact · seen, unseen,
    # exact · unseen, answered or withheld, answered, exact · answered.
    ratios: ClassVar = {
        "exact_match": (0, 1),
        "exact_match_seen": (3, 2),
        "exact_match_unseen": (5, 4),
        "exact_match_answered": (8, 7),
        "coverage": (7, 6),
    }

    items: str = "questions"

    def is_correct(self, row: Row) -> bool:
        return exact_match_and_f1(str(row["predicted"]), list(row["truths"]))[0] == 1.0

    def statistics(self, rows: Sequence[Row]) -> Values:
        predicted, truths = texts(rows, "predicted"), lists_of_texts(rows, "truths")
        table = np.zeros((9, len(rows)))
        for number, (row, answer, accepted) in enumerate(zip(rows, predicted, truths, strict=True)):
            exact, _ = exact_match_and_f1(answer, accepted)
            seen, unseen = float(row.get("seen") is True), float(row.get("seen") is False)
            decided, answered = float("answered" in row), float(bool(row.get("answered")))
            table[:, number] = (
                *(exact, 1.0),
                *(seen, exact * seen, unseen, exact * unseen),
                *(decided, answered, exact * answered),
            )
        return table

    def is_proportion(self, score_name: str) -> bool:
        return True
