"""TF-IDF + ridge regression: a bag of words that predicts a number.

    ŷ = θ · x + c,   θ minimises Σ (y − ŷ)² + α |θ|²        x as in tfidf.py

α is cross-validated on the training rows, so that the baseline is strong without using any
evaluated row. Everything is deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from regard.core.errors import UserError
from regard.evaluation.baselines.tfidf import (
    FOLDS,
    MAX_TUNING_ROWS,
    fit_vectorizer,
    one_blas_thread,
)

NAME = "TF-IDF + ridge regression"
STRENGTHS = (1.0, 0.3, 3.0, 10.0, 30.0)
"Candidate values of α; the first of the best is taken."

Floats = NDArray[np.float64]


class TfidfRidge:
    """A regression fitted on training texts."""

    def __init__(self, texts: Sequence[str], targets: Sequence[float], *, seed: int = 0) -> None:
        if len(texts) != len(targets) or not texts:
            raise UserError(
                f"{len(texts):,} training rows do not match {len(targets):,} numbers",
                topic="baseline",
                where=NAME,
                hint="Give one number for each row, and at least one row.",
            )
        y = np.asarray(targets, dtype=np.float64)
        self._mean = float(y.mean())
        fitted = fit_vectorizer(texts)
        self._vectorizer = None if fitted is None else fitted[0]
        self._model: Any = None
        if fitted is None:
            self.label = f"{NAME} (train has no word: the mean)"
            return
        x = fitted[1]
        strength = _choose_strength(x, y, seed=seed)
        self.label = f"{NAME}, alpha = {strength:g}"
        self._model = _fit(x, y, strength)

    def predict(self, texts: Sequence[str]) -> list[float]:
        if self._model is None or self._vectorizer is None or not texts:
            return [self._mean] * len(texts)
        return [float(value) for value in self._model.predict(self._vectorizer(texts))]


def _choose_strength(x: csr_array, y: Floats, *, seed: int) -> float:
    """The α with the smallest cross-validated squared error."""
    rows = np.random.default_rng(seed).permutation(len(y))[:MAX_TUNING_ROWS]
    fold = np.arange(len(rows)) % FOLDS
    if len(rows) < 2 * FOLDS:  # too few rows to choose
        return STRENGTHS[0]

    def squared_error(strength: float) -> float:
        total = 0.0
        for k in range(FOLDS):
            held_out = rows[fold == k]
            model = _fit(x[rows[fold != k]], y[rows[fold != k]], strength)
            total += float(((model.predict(x[held_out]) - y[held_out]) ** 2).sum())
        return total

    return min(STRENGTHS, key=squared_error)


def _fit(x: csr_array, y: Floats, strength: float) -> Any:
    from sklearn.linear_model import Ridge  # type: ignore[import-untyped]

    with one_blas_thread():
        return Ridge(alpha=strength, solver="sparse_cg", tol=1e-6).fit(x, y)
