"""TF-IDF + logistic regression: a bag-of-words classifier over 1-grams and 2-grams.

    x_w = (1 + ln f(w)) · (1 + ln((1 + N) / (1 + n(w)))) / |x|         P(y | x) = σ(θ_y · x + c_y)

f(w) is the frequency of the term w in the row, n(w) the number of the N training rows that contain
it; the label with the largest P is predicted. Terms are words and 2-grams of words; in scripts
without spaces between words each character is a word. A pair of texts has the terms of each side,
the words in both, and the fraction of each side that is in the other. The inverse regularisation
strength C is cross-validated on the training rows, so that the baseline is strong without using any
evaluated row. Everything is deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import pairwise
from typing import Any, Generic, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from regard.core.errors import UserError
from regard.evaluation.baselines.bm25 import WORD, plain_words
from regard.evaluation.baselines.trivial import Label, majority_label

TextOrPair: TypeAlias = str | tuple[str, str]
TermExtractor: TypeAlias = Callable[[Any], list[str]]
"A row to one group of its terms."
Vectorizer: TypeAlias = Callable[[Sequence[TextOrPair]], csr_array]
Ints: TypeAlias = NDArray[np.int64]

NAME = "TF-IDF + logistic regression"
TERM = re.compile(rf"{WORD.pattern}|[^\w\s]")
STRENGTHS = (1.0, 3.0, 0.3, 10.0, 30.0)
"Candidate values of C; the first of the best is taken."
FOLDS = 3
MAX_TUNING_ROWS = 5_000
"Maximum training rows used to choose C, drawn by seed where there are more."
MAX_ITERATIONS = 2_000
MANY_ROWS = 1_000
"From this many rows on, a term needs two rows: singletons triple the time without a gain."


class TfidfClassifier(Generic[Label]):
    """A classifier fitted on training rows, either all texts or all pairs of texts."""

    def __init__(
        self,
        rows: Sequence[TextOrPair],
        labels: Sequence[Label],
        *,
        name: str = NAME,
        seed: int = 0,
    ) -> None:
        _check_rows(rows, labels)
        # Sorted, so that the order of the rows does not break ties between labels.
        self.labels = sorted(set(labels), key=str)
        self._majority = majority_label(labels, 1)
        fitted = fit_vectorizer(rows)
        self._vectorizer = None if fitted is None else fitted[0]
        self._model: Any = None
        self.description = "nothing was fitted"
        "Its terms, and how C was chosen."
        if len(self.labels) == 1 or fitted is None:
            why = "one label" if len(self.labels) == 1 else "no word"
            self.label = f"{name} (train has {why} only: majority class)"
            return
        indices = {label: index for index, label in enumerate(self.labels)}
        x, y = fitted[1], np.array([indices[label] for label in labels])
        strength, selection = _choose_strength(x, y, seed=seed)
        self.label = f"{name}, C = {strength:g}"
        self.description = f"words and pairs of words; C by {selection}"
        self._model = _fit_regression(x, y, strength)

    def predict(self, rows: Sequence[TextOrPair]) -> list[Label]:
        """The most probable label of each row; labels that train does not have never occur."""
        if self._model is None or self._vectorizer is None or not rows:
            return self._majority * len(rows)
        return [self.labels[index] for index in self._model.predict(self._vectorizer(rows))]


def question_only(
    questions: Sequence[str], answers: Sequence[Label], *, seed: int = 0
) -> TfidfClassifier[Label]:
    """A classifier that ignores the passage or image: what the question alone gives away."""
    return TfidfClassifier(questions, answers, name=f"question only: {NAME}", seed=seed)


def terms(text: str) -> list[str]:
    """1-grams and 2-grams of words and punctuation, in lower case."""
    unigrams = TERM.findall(text.lower())
    return unigrams + [f"{left} {right}" for left, right in pairwise(unigrams)]


def shared_words(pair: tuple[str, str]) -> list[str]:
    first, second = (set(plain_words(text)) for text in pair)
    return sorted(first & second)


def overlap_terms(pair: tuple[str, str]) -> list[str]:
    """Fraction of each side's words that the other side has, in tenths, as two terms."""
    first, second = (set(plain_words(text)) for text in pair)
    shared = len(first & second)
    return [
        f"{side} {10 * shared // max(1, len(words))}"
        for side, words in (("first", first), ("second", second))
    ]


TEXT_EXTRACTORS: tuple[TermExtractor, ...] = (terms,)
PAIR_EXTRACTORS: tuple[TermExtractor, ...] = (
    lambda pair: terms(pair[0]),
    lambda pair: terms(pair[1]),
    shared_words,
    overlap_terms,
)


def _check_rows(rows: Sequence[TextOrPair], labels: Sequence[Any]) -> None:
    if len(rows) != len(labels) or not rows:
        raise UserError(
            f"{len(rows):,} training rows do not match {len(labels):,} labels",
            topic="baseline",
            where=NAME,
            hint="Give one label for each row, and at least one row.",
        )


def fit_vectorizer(rows: Sequence[TextOrPair]) -> tuple[Vectorizer, csr_array] | None:
    """TF-IDF features with the terms of the training rows, and the features of these rows; None
    where they have no word."""
    from sklearn.feature_extraction.text import (  # type: ignore[import-untyped]
        CountVectorizer,
        TfidfTransformer,
    )

    extractors = TEXT_EXTRACTORS if isinstance(rows[0], str) else PAIR_EXTRACTORS
    min_rows = 2 if len(rows) >= MANY_ROWS else 1
    fitted, features = [], []
    for extractor in extractors:
        counter = CountVectorizer(analyzer=extractor, min_df=min_rows, dtype=np.float64)
        # Raised where no term is left, as where no pair shares a word.
        with suppress(ValueError):
            counts = counter.fit_transform(rows)
            # In the order of other rows: it decides how norms are summed, and so the last bits.
            counts.sort_indices()
            weights = TfidfTransformer(sublinear_tf=True).fit(counts)
            fitted.append((counter, weights))
            features.append(weights.transform(counts, copy=False))
    if not fitted:
        return None

    def vectorize(batch: Sequence[TextOrPair]) -> csr_array:
        each = [weights.transform(counter.transform(batch)) for counter, weights in fitted]
        return csr_array(hstack(each))

    return vectorize, csr_array(hstack(features))


def _choose_strength(x: csr_array, y: Ints, *, seed: int) -> tuple[float, str]:
    """The C with the highest cross-validated accuracy, and how it was chosen."""
    rows = np.random.default_rng(seed).permutation(len(y))[:MAX_TUNING_ROWS]
    # Stratified: rows are dealt to the folds label by label.
    rows = rows[np.argsort(y[rows], kind="stable")]
    fold = np.arange(len(rows)) % FOLDS
    correct = [
        sum(
            _count_correct(x, y, train=rows[fold != k], held_out=rows[fold == k], strength=strength)
            for k in range(FOLDS)
        )
        for strength in STRENGTHS
    ]
    subset = f" on {MAX_TUNING_ROWS:,} rows" if len(y) > MAX_TUNING_ROWS else ""
    return STRENGTHS[int(np.argmax(correct))], f"{FOLDS}-fold cross-validation of train{subset}"


def _count_correct(x: csr_array, y: Ints, *, train: Ints, held_out: Ints, strength: float) -> int:
    """Correct predictions on the `held_out` rows after fitting the `train` rows."""
    if not len(held_out) or len(np.unique(y[train])) < 2:  # too few rows to fit
        return 0
    predicted = _fit_regression(x[train], y[train], strength).predict(x[held_out])
    return int(np.count_nonzero(predicted == y[held_out]))


def _fit_regression(x: csr_array, y: Ints, strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    from sklearn.multiclass import OneVsRestClassifier  # type: ignore[import-untyped]

    # liblinear (Newton), one-vs-rest: needs no seed and far fewer iterations than L-BFGS.
    binary = LogisticRegression(C=strength, solver="liblinear", max_iter=MAX_ITERATIONS)
    with one_blas_thread():
        return OneVsRestClassifier(binary).fit(x, y)


def one_blas_thread() -> AbstractContextManager[Any]:
    """For fits whose products are sums over one vector: with two threads BLAS spends five times as
    long on waking them, and their number would decide the last bits."""
    # Of scikit-learn itself, which is imported where a baseline is fitted.
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limits: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limits
