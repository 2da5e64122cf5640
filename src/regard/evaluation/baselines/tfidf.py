"""TF-IDF + logistic regression: what the words alone tell of a label, and no order beyond pairs.

    x_w = (1 + ln f(w)) · (1 + ln((1 + N) / (1 + n(w)))) / |x|         P(y | x) = σ(θ_y · x + c_y)

f(w) is how often the term w is in the item, n(w) in how many of the N training items; the label
with the largest P is said. Terms are words and pairs of neighbouring words. A pair of texts has
the terms of each side, the words in both, and how much of each side is in the other. The strength
C is chosen on the training rows alone, so that the baseline is as good as it honestly gets.
Everything is deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Generic, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from regard.core.errors import UserError
from regard.evaluation.baselines.trivial import Label, majority_label

TextOrPair: TypeAlias = str | tuple[str, str]
View: TypeAlias = Callable[[Any], list[str]]
"The terms of a row, seen from one side."
Vectors: TypeAlias = Callable[[Sequence[TextOrPair]], csr_array]
Numbers: TypeAlias = NDArray[np.int64]

NAME = "TF-IDF + logistic regression"
TERM = re.compile(r"\w+|[^\w\s]")
WORD = re.compile(r"\w+")
STRENGTHS = (1.0, 3.0, 0.3, 10.0, 30.0)
"Values of C that are tried; the first of equals is taken."
FOLDS = 3
TRIED_ROWS = 5_000
"Training rows that choose C, drawn by seed where there are more."
MOST_STEPS = 2_000
MANY_ROWS = 1_000
"From here on a term counts that two rows have: single ones triple the time and tell nothing."


class TfidfClassifier(Generic[Label]):
    """A classifier fitted on training rows: all of them texts, or all of them pairs of texts."""

    def __init__(
        self,
        rows: Sequence[TextOrPair],
        labels: Sequence[Label],
        *,
        name: str = NAME,
        seed: int = 0,
    ) -> None:
        _refuse_unusable(rows, labels)
        # By name, so that the order of the rows does not decide between equal chances.
        self.names = sorted(set(labels), key=str)
        self._usual = majority_label(labels, 1)
        self._vectors = _fitted_vectors(rows)
        self._model: Any = None
        self.how = "nothing was fitted"
        "What it looks at, and how its strength was chosen."
        if len(self.names) == 1 or self._vectors is None:
            why = "one label" if len(self.names) == 1 else "no word"
            self.label = f"{name} (train has {why} only: majority class)"
            return
        places = {label: place for place, label in enumerate(self.names)}
        x, y = self._vectors(rows), np.array([places[label] for label in labels])
        strength, how = _chosen_strength(x, y, seed=seed)
        self.label = f"{name}, C = {strength:g}"
        self.how = f"words and pairs of words; C by {how}"
        self._model = _regression(x, y, strength)

    def predict(self, rows: Sequence[TextOrPair]) -> list[Label]:
        """The likeliest label for each row; a label that train does not have is never said."""
        if self._model is None or self._vectors is None or not rows:
            return self._usual * len(rows)
        return [self.names[place] for place in self._model.predict(self._vectors(rows))]


def question_only(
    questions: Sequence[str], answers: Sequence[Label], *, seed: int = 0
) -> TfidfClassifier[Label]:
    """What the question gives away without the passage or the picture it asks about."""
    return TfidfClassifier(questions, answers, name=f"question only: {NAME}", seed=seed)


def terms(text: str) -> list[str]:
    """Words and marks in lower case, and each two that are neighbours."""
    single = TERM.findall(text.lower())
    return single + [f"{left} {right}" for left, right in pairwise(single)]


def words_in_both(pair: tuple[str, str]) -> list[str]:
    first, second = (set(WORD.findall(text.lower())) for text in pair)
    return sorted(first & second)


def shares_in_both(pair: tuple[str, str]) -> list[str]:
    """How much of each side's words the other has, in tenths, as two terms."""
    first, second = (set(WORD.findall(text.lower())) for text in pair)
    both = len(first & second)
    return [
        f"{side} {10 * both // max(1, len(words))}"
        for side, words in (("first", first), ("second", second))
    ]


OF_A_TEXT: tuple[View, ...] = (terms,)
OF_A_PAIR: tuple[View, ...] = (
    lambda pair: terms(pair[0]),
    lambda pair: terms(pair[1]),
    words_in_both,
    shares_in_both,
)


def _refuse_unusable(rows: Sequence[TextOrPair], labels: Sequence[Any]) -> None:
    if len(rows) != len(labels) or not rows:
        raise UserError(
            f"{len(rows):,} training rows cannot be held against {len(labels):,} labels",
            topic="baseline",
            where=NAME,
            hint="Give one label for each row, and at least one row.",
        )


def _fitted_vectors(rows: Sequence[TextOrPair]) -> Vectors | None:
    """From rows to numbers, by the training rows' vocabulary; None where they have no word."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]

    views = OF_A_TEXT if isinstance(rows[0], str) else OF_A_PAIR
    fewest = 2 if len(rows) >= MANY_ROWS else 1
    fitted = []
    for view in views:
        vectors = TfidfVectorizer(analyzer=view, sublinear_tf=True, min_df=fewest)
        # Its way to say that no term is left, as where no pair has a word in both.
        with suppress(ValueError):
            fitted.append(vectors.fit(rows))
    if not fitted:
        return None
    return lambda some: csr_array(hstack([one.transform(some) for one in fitted]))


def _chosen_strength(x: csr_array, y: Numbers, *, seed: int) -> tuple[float, str]:
    """C that predicts the left-out thirds of the training rows best, and how it was found."""
    drawn = np.random.default_rng(seed).permutation(len(y))[:TRIED_ROWS]
    # Dealt out label by label, so that every fold has its share of each.
    drawn = drawn[np.argsort(y[drawn], kind="stable")]
    fold = np.arange(len(drawn)) % FOLDS
    right = [
        sum(
            _right(x, y, train=drawn[fold != out], held=drawn[fold == out], strength=strength)
            for out in range(FOLDS)
        )
        for strength in STRENGTHS
    ]
    some = f" on {TRIED_ROWS:,} rows" if len(y) > TRIED_ROWS else ""
    return STRENGTHS[int(np.argmax(right))], f"{FOLDS}-fold cross-validation of train{some}"


def _right(x: csr_array, y: Numbers, *, train: Numbers, held: Numbers, strength: float) -> int:
    """How many of the `held` rows are predicted right after the `train` rows."""
    if not len(held) or len(np.unique(y[train])) < 2:  # too few rows to learn anything from
        return 0
    predicted = _regression(x[train], y[train], strength).predict(x[held])
    return int(np.count_nonzero(predicted == y[held]))


def _regression(x: csr_array, y: Numbers, strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    from sklearn.multiclass import OneVsRestClassifier  # type: ignore[import-untyped]

    # Newton's method, one label against the rest: needs no seed, and far fewer steps than L-BFGS.
    one = LogisticRegression(C=strength, solver="liblinear", max_iter=MOST_STEPS)
    return OneVsRestClassifier(one).fit(x, y)
