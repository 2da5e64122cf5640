"""Overfitting: the gap between dev and train loss, with its interval.

    gap = Σ L_dev / Σ T_dev − Σ L_train / Σ T_train       L nats of a document, T tokens predicted

Both losses are computed after training on whole documents, never on the last batch. The splits
share no document, so their variances add (standard error of a ratio of sums by the delta method;
Cochran, 1977).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import exp, hypot

import numpy as np
from numpy.typing import ArrayLike

MIN_DOCUMENTS = 20
"Minimum documents for a verdict: the interval of fewer is too narrow."
Z_95 = 1.96
"Half width of a 95 % interval, in standard errors."


@dataclass(frozen=True)
class LossLevel:
    """Mean loss in nats per token, its standard error, and the number of documents."""

    loss: float
    error: float
    n: int

    @classmethod
    def of_documents(cls, losses: ArrayLike, token_counts: ArrayLike) -> LossLevel:
        """From the nats of each document and its number of predicted tokens."""
        nll, tokens = np.asarray(losses, np.float64), np.asarray(token_counts, np.float64)
        n, loss = len(nll), float(nll.sum() / tokens.sum())
        squares = ((nll - loss * tokens) ** 2).sum() * n / max(n - 1, 1)
        return cls(loss, float(np.sqrt(squares) / tokens.sum()), n)

    @classmethod
    def of_rows(cls, losses: ArrayLike) -> LossLevel:
        """From the loss of each row, as if each were one token."""
        return cls.of_documents(losses, np.ones(np.shape(losses)))


class FitVerdict(StrEnum):
    OVERFITTING = "overfitting"
    ALIKE = "alike"
    DEV_EASIER = "dev is easier"
    TOO_FEW = "too few documents"


@dataclass(frozen=True)
class LossGap:
    """Dev loss minus train loss, in nats per token or per row."""

    train: LossLevel
    dev: LossLevel
    items: str = "documents"
    per_token: bool = True
    "Whether losses are per token, so that exp(loss) is a perplexity; otherwise per item."

    @property
    def value(self) -> float:
        return self.dev.loss - self.train.loss

    @property
    def interval(self) -> tuple[float, float]:
        half = Z_95 * hypot(self.train.error, self.dev.error)
        return self.value - half, self.value + half

    @property
    def fit(self) -> FitVerdict:
        low, high = self.interval
        if min(self.train.n, self.dev.n) < MIN_DOCUMENTS:
            return FitVerdict.TOO_FEW
        return (
            FitVerdict.OVERFITTING
            if low > 0
            else FitVerdict.DEV_EASIER
            if high < 0
            else FitVerdict.ALIKE
        )

    @property
    def sentence(self) -> str:
        """`train and dev are alike: perplexity 401.0 and 381.2, a gap of −0.05 [−0.11, +0.01] …`"""
        low, high = self.interval
        gap = f"{self.value:+.3f} [{low:+.3f}, {high:+.3f}]".replace("-", "−")
        losses = (
            f"perplexity {exp(self.train.loss):,.1f} on train, {exp(self.dev.loss):,.1f} on dev"
            if self.per_token
            else f"loss {self.train.loss:.3f} on train, {self.dev.loss:.3f} on dev"
        )
        unit = "token" if self.per_token else "row"
        details = (
            f"{losses}, a gap of {gap} nats a {unit}, "
            f"n = {self.train.n:,} and {self.dev.n:,} {self.items}"
        )
        match self.fit:
            case FitVerdict.OVERFITTING:
                return (
                    f"dev is worse than train ({details}): overfitting, "
                    "unless dev is the harder text"
                )
            case FitVerdict.DEV_EASIER:
                return f"train is worse than dev ({details}): dev is the easier text"
            case FitVerdict.ALIKE:
                return f"train and dev are alike ({details})"
            case _:
                return f"too few {self.items} to compare train with dev ({details})"
