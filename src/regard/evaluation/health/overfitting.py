"""Train and dev side by side: the word overfitting, only where dev is worse than train.

    gap = Σ L_dev / Σ T_dev − Σ L_train / Σ T_train       L nats of a document, T tokens told in it

Both losses are taken after training on whole documents, never on the last batch. The two parts
share no document, so their uncertainties add in squares (the delta method for a ratio of sums;
Cochran, 1977).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, hypot
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

MIN_DOCUMENTS = 20
"On fewer, an interval is too narrow to say anything by."
Z_95 = 1.96
"Standard errors on each side of a 95 % interval."


class LossesLike(Protocol):
    """One row a document."""

    @property
    def nll(self) -> ArrayLike: ...
    @property
    def tokens(self) -> ArrayLike: ...


@dataclass(frozen=True)
class LossLevel:
    """A mean loss in nats per token, its standard error, and over how many documents."""

    loss: float
    error: float
    n: int

    @classmethod
    def of_documents(cls, table: LossesLike) -> LossLevel:
        nll, tokens = np.asarray(table.nll, np.float64), np.asarray(table.tokens, np.float64)
        n, loss = len(nll), float(nll.sum() / tokens.sum())
        rest = ((nll - loss * tokens) ** 2).sum() * n / max(n - 1, 1)
        return cls(loss, float(np.sqrt(rest) / tokens.sum()), n)


class FitVerdict(StrEnum):
    OVERFITTING = "overfitting"
    ALIKE = "alike"
    DEV_EASIER = "dev is easier"
    TOO_FEW = "too few documents"


@dataclass(frozen=True)
class LossGap:
    """How much worse dev is than train, in nats per token."""

    train: LossLevel
    dev: LossLevel
    items: str = "documents"
    per_token: bool = True
    "Whether losses are of tokens, and so speak of a perplexity; else of whole items."

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
        each = "token" if self.per_token else "row"
        ours = (
            f"{losses}, a gap of {gap} nats a {each}, "
            f"n = {self.train.n:,} and {self.dev.n:,} {self.items}"
        )
        match self.fit:
            case FitVerdict.OVERFITTING:
                return (
                    f"dev is worse than train ({ours}): overfitting, unless dev is the harder text"
                )
            case FitVerdict.DEV_EASIER:
                return f"train is worse than dev ({ours}): dev is the easier text"
            case FitVerdict.ALIKE:
                return f"train and dev are alike ({ours})"
            case _:
                return f"too few {self.items} to hold train against dev ({ours})"

    def as_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            "fit": str(self.fit),
            "sentence": self.sentence,
            "gap": self.value,
            "low": low,
            "high": high,
            "n": {"train": self.train.n, "dev": self.dev.n},
        }


def document_loss_gap(train: LossesLike, dev: LossesLike) -> LossGap:
    """Train against dev, from the losses of their documents."""
    return LossGap(LossLevel.of_documents(train), LossLevel.of_documents(dev))


@dataclass(frozen=True)
class _Rows:
    nll: ArrayLike
    tokens: ArrayLike


def row_loss_gap(train: Sequence[float], dev: Sequence[float], *, items: str) -> LossGap | None:
    """Train against dev, from the loss of each row; None where rows have none."""
    if not train or not dev:
        return None
    ours, theirs = (
        LossLevel.of_documents(_Rows(rows, np.ones(len(rows)))) for rows in (train, dev)
    )
    return LossGap(ours, theirs, items=items, per_token=False)
