"""Question answering: exact match and word F1, overall and by answerable or not.

    exact_match   the prediction equals one of the truths
    f1            2 · shared words / (words of the prediction + words of the truth), best truth

Both after SQuAD's normalisation (Rajpurkar et al., 2016 and 2018): lower case, no punctuation, no
articles, single spaces. An unanswerable question scores 1 for an empty prediction and 0 otherwise.
Unlike in the official script, a text that normalisation empties ("the", "%") is compared as it is,
so it never counts as an abstention.

`best_threshold` chooses τ on one split: answer where best ≥ null + τ.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.core.errors import UserError
from regard.evaluation.metrics.fields import field_error, lists_of_texts, texts
from regard.evaluation.metrics.metric import RatioMetric, Row, metric_kind
from regard.evaluation.statistics.seed_tables import Values

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@metric_kind(
    "answers",
    perfect=[
        {"predicted": "the red horse", "truths": ["A red horse", "it"]},
        {"predicted": "in 1822", "truths": ["in 1822"]},
        {"predicted": "", "truths": []},
        {"predicted": "", "truths": ["a plausible answer"], "answerable": False},
    ],
    bad=[
        {"predicted": "red", "truths": ["A red horse", "it"]},
        {"predicted": "", "truths": ["in 1822"]},
        {"predicted": "horse", "truths": []},
        {"predicted": "a plausible answer", "truths": ["a plausible answer"], "answerable": False},
    ],
)
@dataclass(frozen=True, kw_only=True)
class AnswerMetric(RatioMetric):
    """Exact match and word F1 of answers, overall and by answerable or not.

    Uses the fields `predicted` ("" abstains), `truths` (empty: unanswerable) and `answerable`.

    `answerable` is optional: by default a question with truths is answerable. Where it is false,
    truths (such as SQuAD's plausible answers) do not count."""

    truth: ClassVar[str] = "truths"
    # Statistics: exact, f1, one, and then answerable,
    # exact · answerable, f1 · answerable, unanswerable, exact · unanswerable.
    ratios: ClassVar = {
        "exact_match": (0, 2),
        "f1": (1, 2),
        "exact_match_answerable": (4, 3),
        "f1_answerable": (5, 3),
        "exact_match_unanswerable": (7, 6),
    }

    items: str = "questions"

    def is_correct(self, row: Row) -> bool:
        accepted = list(row["truths"]) if row.get("answerable", True) else []
        return exact_match_and_f1(str(row["predicted"]), accepted)[0] == 1.0

    def statistics(self, rows: Sequence[Row]) -> Values:
        predicted, truths = texts(rows, "predicted"), lists_of_texts(rows, "truths")
        table = np.zeros((8, len(rows)))
        for number, (row, answer, accepted) in enumerate(zip(rows, predicted, truths, strict=True)):
            answerable = row.get("answerable", bool(accepted))
            if answerable and not accepted:
                raise field_error(
                    rows,
                    number,
                    "answerable, but without a truth",
                    hint="Give an answer, or say answerable = false.",
                )
            exact, f1 = exact_match_and_f1(answer, accepted if answerable else [])
            has_answer, no_answer = float(bool(answerable)), float(not answerable)
            table[:, number] = (
                *(exact, f1, 1.0),
                *(has_answer, exact * has_answer, f1 * has_answer),
                *(no_answer, exact * no_answer),
            )
        return table

    def is_proportion(self, score_name: str) -> bool:
        return score_name.startswith("exact_match")


def exact_match_and_f1(predicted: str, truths: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 of one prediction with its best truth; without truths: unanswerable."""
    if not truths or not predicted.strip():
        correct = float(not truths and not predicted.strip())
        return correct, correct
    words = _words(predicted)
    exact = float(any(words == _words(truth) for truth in truths))
    return exact, max(_f1(words, _words(truth)) for truth in truths)


def normalise_answer(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


class Threshold(NamedTuple):
    """τ, its F1 on the split it was chosen on, and the curve of (τ, F1)."""

    tau: float
    f1: float
    curve: list[tuple[float, float]]


def best_threshold(
    null_scores: ArrayLike,
    best_scores: ArrayLike,
    f1_if_answered: ArrayLike,
    f1_if_null: ArrayLike,
) -> Threshold:
    """The τ of `should_answer(null, best, τ)` with the highest mean F1.

    Ties go to the smallest |τ|, then to the lower τ.

    Candidates lie midway between two distinct margins best − null, or 1 beyond all of them, so
    that rounding decides nothing when τ is applied."""
    null, best, answered, abstained = (
        np.asarray(given, dtype=np.float64)
        for given in (null_scores, best_scores, f1_if_answered, f1_if_null)
    )
    if not len(null) or not len(null) == len(best) == len(answered) == len(abstained):
        counts = ", ".join(f"{len(given):,}" for given in (null, best, answered, abstained))
        raise UserError(
            f"a threshold needs equally many scores and F1s, at least one, got {counts}",
            topic="evaluation",
        )
    margins = best - null
    if not np.isfinite(np.concatenate([margins, answered, abstained])).all():
        raise UserError(
            "a score of an answer is not a finite number",
            topic="evaluation",
            hint="No threshold can be chosen: look for a training run that diverged.",
        )
    order = np.argsort(-margins, kind="stable")
    margins, gains = margins[order], (answered - abstained)[order]
    tolerance = 1e-9 * max(1.0, float(np.abs([null, best]).max()))
    # Numbers of answers, most certain first, after which the margin changes.
    cuts = np.flatnonzero(margins[:-1] - margins[1:] > tolerance) + 1
    taus = [margins[0] + 1, *((margins[cuts - 1] + margins[cuts]) / 2), margins[-1] - 1]
    gained = np.concatenate([[0.0], np.cumsum(gains)])[[0, *cuts, len(gains)]]
    f1 = (abstained.sum() + gained) / len(gains)
    ties = np.flatnonzero(f1 >= f1.max() - 1e-12)
    best_index = min(ties, key=lambda index: (abs(taus[index]), taus[index]))
    curve = [(float(tau), float(value)) for tau, value in zip(taus, f1, strict=True)]
    return Threshold(*curve[best_index], curve[::-1])


def should_answer(null_scores: ArrayLike, best_scores: ArrayLike, tau: float) -> NDArray[np.bool_]:
    """True where the best span is given as the answer."""
    return np.asarray(np.asarray(best_scores) >= np.asarray(null_scores) + tau)


def _words(text: str) -> list[str]:
    return normalise_answer(text).split() or text.split()


def _f1(predicted: list[str], true: list[str]) -> float:
    shared = sum((Counter(predicted) & Counter(true)).values())
    return 2 * shared / (len(predicted) + len(true))
