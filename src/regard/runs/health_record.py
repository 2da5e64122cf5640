"""The health of a trained model in results.json: samples, predictions, train–dev gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import Field

from regard.core.json_records import JsonRecord
from regard.evaluation.health.repetition import Repetition
from regard.evaluation.health.samples import BigramCounts

if TYPE_CHECKING:
    from regard.evaluation.health.overfitting import LossGap


class SampleHealthRecord(JsonRecord):
    """Samples of the model against real text of the same length."""

    sentence: str
    flags: tuple[str, ...] = ()
    drawn: str = ""
    "How the judged texts were drawn."
    unjudged: str = ""
    "Why they were not judged, if they were not."
    n: int = 0
    tokens: int = 0
    "Compared tokens of the samples."
    documents: int = 0
    "Real texts they are compared with."
    empty_rate: float | None = None
    reference_empty_rate: float | None = None
    samples: Repetition | None = None
    reference: Repetition | None = None
    known_bigrams: BigramCounts | None = None


class TrainDevGapRecord(JsonRecord):
    """Loss on dev minus loss on train, in nats per token."""

    fit: str
    sentence: str
    gap: float
    low: float
    high: float
    n: dict[str, int] = Field(default_factory=dict)
    "Documents or rows of each split."

    @classmethod
    def of_gap(cls, gap: LossGap) -> Self:
        low, high = gap.interval
        n = {"train": gap.train.n, "dev": gap.dev.n}
        return cls(fit=gap.fit, sentence=gap.sentence, gap=gap.value, low=low, high=high, n=n)


class PredictionsRecord(JsonRecord):
    """What is wrong with the predictions as a whole."""

    flags: tuple[str, ...] = ()
    n: int = 0
    collapsed: str = ""
    "How the predictions have collapsed to one class, in words; empty if not."


class HealthRecord(JsonRecord):
    samples: SampleHealthRecord | None = None
    "None for a task."
    predictions: PredictionsRecord | None = None
    "None for a language model."
    train_dev_gap: TrainDevGapRecord | None = None
    "None if answers have no loss."

    @property
    def flags(self) -> tuple[str, ...]:
        """Everything that is wrong, a sentence each."""
        records = (self.samples, self.predictions)
        return tuple(flag for record in records if record is not None for flag in record.flags)
