"""What a run left behind, as typed values: its events, and the figures measured at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

MODEL = "model"
"What a figure of the run's own model is said to be of; any other name is a baseline's."


class ArchiveRecord(BaseModel):
    """A value from a run folder; keys this version does not know are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


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
    figures: dict[str, float] = {}
    "By name, as people watched them."
    items: str = "documents"


class SamplesEvent(ArchiveRecord):
    step: int
    texts: tuple[str, ...]


class EstimateRecord(ArchiveRecord):
    """A value with its interval, and on how many items of a part it stands."""

    part: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int
    items: str = "documents"
    signature: str = ""
    no_interval: str = ""
    "Why there is no interval, where there is none."


class ScoreRecord(EstimateRecord):
    """One measured value."""

    of: str
    "Whose it is: the model's or a baseline's."


class BaselineVerdict(StrEnum):
    BETTER = "better than"
    BEHIND = "behind"
    NOT_DISTINGUISHABLE = "not distinguishable from"
    TOO_FEW = "on too few to be told from"
    TUNED = "tuned on these rows, and not judged against"


class ComparisonRecord(EstimateRecord):
    """The model minus a baseline, drawn anew on the same items, and what the run made of it."""

    against: str
    verdict: BaselineVerdict


class HistogramRecord(ArchiveRecord):
    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @model_validator(mode="after")
    def one_count_between_two_edges(self) -> Self:
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
    "Tokens beyond the longest document allowed, which were left out."
    histogram: HistogramRecord | None = None


class OverlapRecord(ArchiveRecord):
    """Shares of a part that also stand in the training set."""

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
    "Counts by reason; a table (such as the counts of each file) may stand beside them."

    @property
    def dropped_counts(self) -> dict[str, int]:
        """Why something was left out, and how often, where it was."""
        return {why: n for why, n in self.dropped.items() if isinstance(n, int) and n}


class TokenizerRecord(ArchiveRecord):
    name: str
    size: int
    fingerprint: str


class CostRecord(ArchiveRecord):
    seconds: float | None = None
    waiting_share: float | None = None
    "Of these seconds, in which no batch was ready to be learnt from."
    steps: int | None = None
    tokens: int | None = None
    tokens_per_second: float | None = None
    peak_memory_bytes: int | None = None
    parameters: int | None = None
    padding_waste: float | None = None


class TrainedTensorRecord(ArchiveRecord):
    """One tensor that was trained."""

    name: str
    shape: tuple[int, ...]
    count: int


class LedgerTerm(ArchiveRecord):
    """A part of what was trained, by formula."""

    name: str
    formula: str
    value: int


class LedgerRecord(ArchiveRecord):
    """What was trained: each tensor, and the closed formula that says how many numbers it holds."""

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
    """Shares of a set of texts, and the longest run of one token in it."""

    distinct_1: float
    distinct_2: float
    distinct_3: float
    repetition: float
    longest_run: float
    alike: float
    unknown_share: float


class SampleHealthRecord(ArchiveRecord):
    """What the model writes, beside real text of the same length."""

    sentence: str
    flags: tuple[str, ...] = ()
    drawn: str = ""
    "How the texts that were judged came about."
    unjudged: str = ""
    "Why nothing is said of them."
    samples: RepetitionRecord | None = None
    reference: RepetitionRecord | None = None


class TrainDevGapRecord(ArchiveRecord):
    """How much worse dev is than train, in nats per token."""

    fit: str
    sentence: str
    gap: float
    low: float
    high: float


class PredictionsRecord(ArchiveRecord):
    """What is wrong with the answers as a whole."""

    flags: tuple[str, ...] = ()
    n: int = 0
    collapsed: str = ""
    "How one class is answered for every row, in words; nothing where it is not so."


class HealthRecord(ArchiveRecord):
    samples: SampleHealthRecord | None = None
    "None where the model answers instead of writing."
    predictions: PredictionsRecord | None = None
    "None where it writes instead of answering."
    train_and_dev: TrainDevGapRecord | None = None
    "None where answers have no loss."

    @property
    def flags(self) -> tuple[str, ...]:
        """Everything that is wrong, a sentence each."""
        judged = (self.samples, self.predictions)
        return tuple(flag for one in judged if one is not None for flag in one.flags)


class FindingRecord(ArchiveRecord):
    check: str
    text: str
    size: float


class UnusedParameterRecord(ArchiveRecord):
    name: str
    shape: tuple[int, ...]
    why: str


class AuditRecord(ArchiveRecord):
    """What the audit before the training saw."""

    verdict: str
    sentence: str
    broken: tuple[str, ...] = ()
    "Kinds of attention that declare themselves broken, and why."
    mask: str = ""
    findings: tuple[FindingRecord, ...] = ()
    unused_parameters: tuple[UnusedParameterRecord, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether the run's figures mean what they say."""
        return self.verdict != "leak" and not self.broken


class ResultsRecord(ArchiveRecord):
    """All of figures.json."""

    run: str
    finished: str
    figures: tuple[ScoreRecord, ...]
    comparisons: tuple[ComparisonRecord, ...] = ()
    remarks: tuple[str, ...] = ()
    audit: AuditRecord | None = None
    "None in a run of a version that had no audit."
    measure: dict[str, Any] = {"kind": "perplexity"}
    "What turns the run's items into figures."
    items: dict[str, dict[str, str]] = {}
    "By part: which documents were measured, and which of their tokens were told."
    tables: dict[str, list[dict[str, Any]]] = {}
    "What figures over all items hide, by name: a curve, a score by length."
    order: str = ""
    "The same for two runs that read the same rows in the same order."
    corpus: CorpusRecord | None = None
    tokenizer: TokenizerRecord | None = None
    cost: CostRecord = CostRecord()
    ledger: LedgerRecord | None = None
    "None in a run of a version that kept none."
    samples: tuple[SampleRecord, ...] = ()
    health: HealthRecord | None = None
    "None in a run of a version that did not look."
    environment: dict[str, str | int | float | None] = {}

    @property
    def main(self) -> str:
        """The metric that the run is judged by: the first of the model's."""
        return next((figure.metric for figure in self.figures if figure.of == MODEL), "perplexity")

    @property
    def samples_belie_perplexity(self) -> bool:
        """Whether the model beats the unigram baseline, and yet what it writes is flagged."""
        beats = any(
            compared.against.startswith("unigram") and compared.verdict is BaselineVerdict.BETTER
            for compared in self.comparisons
        )
        return beats and self.health is not None and bool(self.health.flags)

    @model_validator(mode="after")
    def both_sides_of_a_comparison_were_measured(self) -> Self:
        # A page sets the two figures side by side; without one, a verdict would silently vanish.
        measured = {(figure.part, figure.metric, figure.of) for figure in self.figures}
        for compared in self.comparisons:
            for side in (MODEL, compared.against):
                if (compared.part, compared.metric, side) not in measured:
                    raise ValueError(
                        f"{compared.part} {compared.metric} is compared with {compared.against}, "
                        f"but there is no such figure of {side}"
                    )
        return self


@dataclass
class Events:
    """What events.jsonl says, without what a resume undid."""

    start: StartEvent = field(default_factory=StartEvent)
    steps: list[StepEvent] = field(default_factory=list)
    evaluations: list[EvaluationEvent] = field(default_factory=list)
    samples: list[SamplesEvent] = field(default_factory=list)
    resumed_from: list[int] = field(default_factory=list)
    finished_at: int | None = None
    unreadable_lines: int = 0

    @property
    def last_step(self) -> int:
        seen = (self.steps, self.evaluations, self.samples)
        return max((events[-1].step for events in seen if events), default=0)


@dataclass(frozen=True)
class RunRecord:
    folder: Path
    name: str
    recipe: str
    events: Events
    figures: ResultsRecord | None
    "None while the run is not finished."
