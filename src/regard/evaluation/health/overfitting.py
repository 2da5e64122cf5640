"""Overfitting: the gap between dev and train loss, with its interval.

    gap = Σ L_dev / Σ T_dev − Σ L_train / Σ T_train       L nats of a document, T tokens predicted

Both losses are computed after training on whole documents, never on the last batch. The splits
share no document, so their variances add (standard error of a ratio of sums by the delta method;
Cochran, 1977). Where documents have groups, residuals are summed over each group, and the interval
is that of Student's t with the degrees of freedom of the fewer groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import exp, hypot, inf, isinf

import numpy as np
from numpy.typing import ArrayLike

from regard.evaluation.formatting import in_groups, sample_size
from regard.evaluation.statistics.intervals import t_quantile
from regard.evaluation.statistics.item_groups import (
    MIN_GROUPS,
    GroupNumbers,
    count_groups,
    effective_groups,
    sum_by_group,
)

MIN_DOCUMENTS = 20
"Minimum documents for a verdict: the interval of fewer is too narrow."
Z_95 = 1.96
"Half width of a 95 % interval, in standard errors."


@dataclass(frozen=True)
class LossLevel:
    """Mean loss in nats per token, its standard error, and the number of documents and groups."""

    loss: float
    error: float
    n: int
    groups: int | None = None
    "Groups of documents; None where every document stands alone."
    effective_groups: float = inf
    "The number of equal groups that they are worth; infinite where every document stands alone."

    @classmethod
    def of_documents(
        cls, losses: ArrayLike, token_counts: ArrayLike, *, groups: GroupNumbers | None = None
    ) -> LossLevel:
        """From the nats of each document and its number of predicted tokens."""
        nll, tokens = np.asarray(losses, np.float64), np.asarray(token_counts, np.float64)
        loss = float(nll.sum() / tokens.sum())
        residuals = sum_by_group(nll - loss * tokens, groups)
        units = len(residuals)
        squares = (residuals**2).sum() * units / max(units - 1, 1)
        return cls(
            loss,
            float(np.sqrt(squares) / tokens.sum()),
            len(nll),
            count_groups(groups),
            effective_groups(groups) or inf,
        )

    @classmethod
    def of_rows(cls, losses: ArrayLike, *, groups: GroupNumbers | None = None) -> LossLevel:
        """From the loss of each row, as if each were one token."""
        return cls.of_documents(losses, np.ones(np.shape(losses)), groups=groups)

    @property
    def is_too_small(self) -> bool:
        return self.n < MIN_DOCUMENTS or (self.groups or MIN_GROUPS) < MIN_GROUPS


class FitVerdict(StrEnum):
    OVERFITTING = "overfitting"
    LEARNED_LITTLE = "learned too little"
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
    ahead: str = ""
    "The trivial baseline that is ahead of the model: it has learned too little to overfit."

    @property
    def value(self) -> float:
        return self.dev.loss - self.train.loss

    @property
    def interval(self) -> tuple[float, float]:
        units = min(self.train.effective_groups, self.dev.effective_groups)
        quantile = Z_95 if isinf(units) else t_quantile(units - 1)
        half = quantile * hypot(self.train.error, self.dev.error)
        return self.value - half, self.value + half

    @property
    def fit(self) -> FitVerdict:
        low, high = self.interval
        if self.train.is_too_small or self.dev.is_too_small:
            return FitVerdict.TOO_FEW
        worse_on_dev = FitVerdict.LEARNED_LITTLE if self.ahead else FitVerdict.OVERFITTING
        return worse_on_dev if low > 0 else FitVerdict.DEV_EASIER if high < 0 else FitVerdict.ALIKE

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
            f"n = {self.train.n:,}{in_groups(self.train.groups)} and "
            f"{sample_size(self.dev.n, self.items, self.dev.groups)}"
        )
        match self.fit:
            case FitVerdict.OVERFITTING:
                return (
                    f"dev is worse than train ({details}): overfitting, "
                    "unless dev is the harder text"
                )
            case FitVerdict.LEARNED_LITTLE:
                return (
                    f"dev is worse than train ({details}), but the {self.ahead} baseline is ahead "
                    "of the model, so it has learned too little to overfit"
                )
            case FitVerdict.DEV_EASIER:
                return f"train is worse than dev ({details}): dev is the easier text"
            case FitVerdict.ALIKE:
                return f"train and dev are alike ({details})"
            case _:
                return f"too few {self.items} to compare train with dev ({details})"
