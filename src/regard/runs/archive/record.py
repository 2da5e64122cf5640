"""Typed records of a run folder: its events and its final results."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

RESULTS_SCHEMA = 2
"Of results.json."
MODEL = "model"
"`of` in rows of the run's own model; any other name is a baseline's."


class ArchiveRecord(BaseModel):
    """A record from a run folder; unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class StartEvent(ArchiveRecord):
    time: str | None = None
    steps: int | None = None
    parameters: int | None = None


class StepEvent(ArchiveRecord):
    step: int
    loss: float
    "Mean over the steps since the previous such event, in nats per token."
    tokens: int | None = None
    seconds: float | None = None
    lr: float | None = None
    gradient_norm: float | None = None


class EvaluationEvent(ArchiveRecord):
    step: int
    loss: float
    n: int
    scores: dict[str, float] = {}
    "By name, as shown during training."
    items: str = "documents"


class SamplesEvent(ArchiveRecord):
    step: int
    texts: tuple[str, ...]


class EstimateRecord(ArchiveRecord):
    """A value with its interval and the number of items of a split behind it."""

    split: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int
    items: str = "documents"
    signature: str = ""
    no_interval: str = ""
    "Why there is no interval, if there is none."


class ScoreRecord(EstimateRecord):
    """An estimate of a metric for the model or a baseline."""

    of: str
    "The model or a baseline."


class BaselineVerdict(StrEnum):
    BETTER = "better than"
    BEHIND = "behind"
    NOT_DISTINGUISHABLE = "not distinguishable from"
    TOO_FEW = "on too few items to compare with"
    TUNED = "tuned on these rows, and not judged against"


class ComparisonRecord(EstimateRecord):
    """The model minus a baseline, by paired bootstrap on the same items, with its verdict."""

    against: str
    verdict: BaselineVerdict


class HistogramRecord(ArchiveRecord):
    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @model_validator(mode="after")
    def _check_edges(self) -> Self:
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError(f"{len(self.edges)} edges cannot bound {len(self.counts)} counts")
        return self


class SplitRecord(ArchiveRecord):
    documents: int
    tokens: int
    bytes: int
    unique_tokens: int | None = None
    unknown_rate: float | None = None
    fingerprint: str = ""
    mean_length: float | None = None
    median_length: float | None = None
    max_length: int | None = None
    truncated_tokens: int = 0
    "Tokens beyond the maximum document length, which were dropped."
    histogram: HistogramRecord | None = None


class OverlapRecord(ArchiveRecord):
    """Fractions of a split that also occur in the training split."""

    documents: float
    ngrams: float
    n: int
    "Words in an n-gram."
    documents_counted: int | None = None
    ngrams_counted: int | None = None


class CorpusRecord(ArchiveRecord):
    name: str
    generated: bool
    splits: dict[str, SplitRecord]
    overlap: dict[str, OverlapRecord] = {}
    dropped: dict[str, Any] = {}
    "Counts by reason; tables (such as counts by file) are possible too."

    @property
    def dropped_counts(self) -> dict[str, int]:
        """Reasons with a positive count."""
        return {why: n for why, n in self.dropped.items() if isinstance(n, int) and n}


class TokenizerRecord(ArchiveRecord):
    name: str
    size: int
    fingerprint: str


class CostRecord(ArchiveRecord):
    seconds: float | None = None
    data_wait_fraction: float | None = None
    "Fraction of these seconds spent waiting for a batch."
    steps: int | None = None
    tokens: int | None = None
    tokens_per_second: float | None = None
    peak_memory_bytes: int | None = None
    parameters: int | None = None
    padding_waste: float | None = None


class TrainedTensorRecord(ArchiveRecord):
    """One trained tensor."""

    name: str
    shape: tuple[int, ...]
    count: int


class LedgerTerm(ArchiveRecord):
    """One term of the closed formula."""

    name: str
    formula: str
    value: int


class LedgerRecord(ArchiveRecord):
    """Trained parameters: counted by tensor, and by a closed formula."""

    adapter: str
    rows: tuple[TrainedTensorRecord, ...]
    total: int
    of: int
    "Parameters of the whole model."
    fraction: float
    terms: tuple[LedgerTerm, ...]


class SampleRecord(ArchiveRecord):
    prompt: str
    text: str


class RepetitionRecord(ArchiveRecord):
    """Repetition rates of a set of texts, and the longest run of one token."""

    distinct_1: float
    distinct_2: float
    distinct_3: float
    repetition: float
    longest_run: float
    alike: float
    unknown_rate: float


class SampleHealthRecord(ArchiveRecord):
    """Samples of the model against real text of the same length."""

    sentence: str
    flags: tuple[str, ...] = ()
    drawn: str = ""
    "How the judged texts were drawn."
    unjudged: str = ""
    "Why they were not judged, if they were not."
    samples: RepetitionRecord | None = None
    reference: RepetitionRecord | None = None


class TrainDevGapRecord(ArchiveRecord):
    """Loss on dev minus loss on train, in nats per token."""

    fit: str
    sentence: str
    gap: float
    low: float
    high: float


class PredictionsRecord(ArchiveRecord):
    """What is wrong with the predictions as a whole."""

    flags: tuple[str, ...] = ()
    n: int = 0
    collapsed: str = ""
    "How the predictions have collapsed to one class, in words; empty if not."


class HealthRecord(ArchiveRecord):
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


class FindingRecord(ArchiveRecord):
    check: str
    text: str
    size: float


class UnusedParameterRecord(ArchiveRecord):
    name: str
    shape: tuple[int, ...]
    why: str


class AuditRecord(ArchiveRecord):
    """The audit before training."""

    verdict: str
    sentence: str
    broken: tuple[str, ...] = ()
    "Attention kinds that declare themselves broken, and why."
    mask: str = ""
    findings: tuple[FindingRecord, ...] = ()
    unused_parameters: tuple[UnusedParameterRecord, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether the run's scores mean anything."""
        return self.verdict != "leak" and not self.broken


class ResultsRecord(ArchiveRecord):
    """All of results.json."""

    run: str
    finished: str
    estimates: tuple[ScoreRecord, ...]
    comparisons: tuple[ComparisonRecord, ...] = ()
    remarks: tuple[str, ...] = ()
    audit: AuditRecord | None = None
    "None if the run was not audited."
    metric: dict[str, Any] = {"kind": "perplexity"}
    "Settings of the metric that turns the run's items into estimates."
    items: dict[str, dict[str, str]] = {}
    "By split: fingerprints of the evaluated documents, and of their scored tokens."
    tables: dict[str, list[dict[str, Any]]] = {}
    "Breakdowns of the scores, by name: a curve, a score by length."
    order: str = ""
    "Equal for two runs that were trained on the same rows in the same order."
    corpus: CorpusRecord | None = None
    tokenizer: TokenizerRecord | None = None
    cost: CostRecord = CostRecord()
    ledger: LedgerRecord | None = None
    "None if the run has none."
    samples: tuple[SampleRecord, ...] = ()
    health: HealthRecord | None = None
    "None if the run has none."
    environment: dict[str, str | int | float | None] = {}

    @property
    def main(self) -> str:
        """Name of the score that the run is judged by: the model's first."""
        return next((row.metric for row in self.estimates if row.of == MODEL), "perplexity")

    @property
    def samples_belie_perplexity(self) -> bool:
        """Whether the model beats the unigram baseline, and yet its samples are flagged."""
        beats_unigram = any(
            row.against.startswith("unigram") and row.verdict is BaselineVerdict.BETTER
            for row in self.comparisons
        )
        return beats_unigram and self.health is not None and bool(self.health.flags)

    @model_validator(mode="after")
    def _check_comparisons(self) -> Self:
        # A report shows both estimates side by side; without one, a verdict would silently vanish.
        measured = {(row.split, row.metric, row.of) for row in self.estimates}
        for row in self.comparisons:
            for side in (MODEL, row.against):
                if (row.split, row.metric, side) not in measured:
                    raise ValueError(
                        f"{row.split} {row.metric} is compared with {row.against}, "
                        f"but there is no such estimate of {side}"
                    )
        return self


@dataclass
class Events:
    """The events of events.jsonl, without those that a resume undid."""

    start: StartEvent = field(default_factory=StartEvent)
    steps: list[StepEvent] = field(default_factory=list)
    evaluations: list[EvaluationEvent] = field(default_factory=list)
    samples: list[SamplesEvent] = field(default_factory=list)
    resumed_from: list[int] = field(default_factory=list)
    finished_at: int | None = None
    unreadable_lines: int = 0

    @property
    def last_step(self) -> int:
        series = (self.steps, self.evaluations, self.samples)
        return max((events[-1].step for events in series if events), default=0)


@dataclass(frozen=True)
class RunRecord:
    folder: Path
    name: str
    recipe: str
    events: Events
    results: ResultsRecord | None
    "None while the run is not finished."
