"""Recall: answers from memory, and whether there was anything to remember.

    exact_match             right / n
    exact_match_seen        the same, of questions after what the text behind the model tells of
    exact_match_unseen      and of the others, where an answer is a guess
    exact_match_answered    right / answered, of those it was sure enough to answer
    coverage                answered / n

Right is an answer that equals one of the truths after SQuAD's normalisation (`answers.py`). An
answer that was held back still counts in the first three: they tell what the model would say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.evaluation.metrics.fields import lists_of_texts, texts
from regard.evaluation.metrics.metric import RatioMetric, Row
from regard.evaluation.metrics.question_answering import exact_match_and_f1
from regard.evaluation.statistics.seed_tables import Values


@dataclass(frozen=True, kw_only=True)
class RecallMetric(RatioMetric):
    """Reads `predicted`, `truths`, and where they are known `seen` and `answered`."""

    kind: ClassVar[str] = "recall"
    truth: ClassVar[str] = "truths"
    # Columns: exact, one, and then seen, exact · seen, unseen,
    # exact · unseen, answered or held back, answered, exact · answered.
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
            judged, answered = float("answered" in row), float(bool(row.get("answered")))
            table[:, number] = (
                *(exact, 1.0),
                *(seen, exact * seen, unseen, exact * unseen),
                *(judged, answered, exact * answered),
            )
        return table

    def is_proportion(self, score_name: str) -> bool:
        return True
