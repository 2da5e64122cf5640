"""What a run writes when it has trained: results.json, and audit.json, which it starts with.

Training builds these records, and reports, comparisons, the index of runs and the command line read
them back: a result is declared here and nowhere else. Reading needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from regard.audits.findings import INVALID_VERDICTS, Finding, Leak, UnusedParameter
from regard.core.errors import UserError
from regard.core.html_display import HtmlDisplay
from regard.core.json_records import JsonRecord, read_record, record_table, write_record
from regard.core.ledger import Ledger
from regard.core.seal import check_seal, check_sealed, write_and_seal
from regard.data.splits import Split
from regard.data.statistics import CorpusStatistics
from regard.evaluation.formatting import metric_label, with_interval
from regard.evaluation.statistics.baseline_verdict import MIN_ITEMS, BaselineVerdict
from regard.evaluation.statistics.estimate import Estimate
from regard.runs.health_record import HealthRecord
from regard.training.events import Event

if TYPE_CHECKING:
    from regard.audits.audit import Audit

RESULTS_SCHEMA = 3
"Of results.json."
AUDIT_SCHEMA = 3
"Of audit.json."
SEALED = ("recipe.toml", "events.jsonl", "audit.json", "items/*.jsonl", "final/manifest.json")
"What is sealed with results.json."
FORMER_RESULTS = "figures.json"
"Name of results.json in schema 1."
MODEL = "model"
"`of` in rows of the run's own model; any other name is a baseline's."
JUDGED_SPLITS: tuple[Split, ...] = ("dev", "test")
"Splits on which baselines are scored; on train an n-gram model has seen every document."
MAX_LEAKS_LISTED = 100
THESE_WEIGHTS = "this run's own weights and text: gradients and truncation"
"What is checked where an earlier audit of the same architecture is reused."


class EstimateRecord(JsonRecord):
    """A value with its interval and the number of items of a split behind it."""

    split: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int
    items: str = "documents"
    groups: int | None = None
    "Number of groups of items; None where every item stands alone."
    signature: str = ""
    no_interval: str = ""
    "Why there is no interval, if there is none."


class ScoreRecord(EstimateRecord):
    """An estimate of a metric for the model or a baseline."""

    of: str
    "The model or a baseline."

    @classmethod
    def of_estimate(cls, estimate: Estimate, *, split: str, of: str) -> Self:
        return cls(split=split, metric=estimate.name, of=of, **_interval(estimate))


class ComparisonRecord(EstimateRecord):
    """The model minus a baseline, by paired bootstrap on the same items, with its verdict."""

    against: str
    verdict: BaselineVerdict

    @classmethod
    def of_difference(
        cls,
        difference: Estimate,
        *,
        split: str,
        metric: str,
        against: str,
        verdict: BaselineVerdict,
    ) -> Self:
        return cls(
            split=split,
            metric=metric,
            against=against,
            verdict=verdict,
            **_interval(difference),
        )


def _interval(estimate: Estimate) -> dict[str, Any]:
    """The fields that every estimate has, whatever it is of."""
    return {name: value for name, value in vars(estimate).items() if name != "name"}


class TokenizerRecord(JsonRecord):
    name: str
    size: int
    fingerprint: str


class CostRecord(JsonRecord):
    seconds: float | None = None
    data_wait_fraction: float | None = None
    "Fraction of these seconds spent waiting for a batch."
    steps: int | None = None
    tokens: int | None = None
    tokens_per_second: float | None = None
    peak_memory_bytes: int | None = None
    parameters: int | None = None
    padding_waste: float | None = None


class SampleRecord(JsonRecord):
    prompt: str
    text: str


class AuditRecord(JsonRecord, HtmlDisplay):
    """All of audit.json: the audit before training."""

    target: str = ""
    verdict: str
    sentence: str
    reason: str = ""
    broken: tuple[str, ...] = ()
    "Attention kinds that declare themselves broken, and why."
    mask: str = ""
    mask_from: str = ""
    leaks: tuple[Leak, ...] = ()
    "The largest; results.json leaves them to audit.json."
    leak_count: int = 0
    "Of all of them."
    findings: tuple[Finding, ...] = ()
    unused_parameters: tuple[UnusedParameter, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    seconds: float | None = None
    audited: str = ""
    "When, where it was for an earlier run of the same architecture; empty where for this one."

    @classmethod
    def of_audit(cls, audit: Audit, *, broken: Sequence[str] = ()) -> Self:
        largest = sorted(audit.leaks, key=lambda leak: -leak.influence)[:MAX_LEAKS_LISTED]
        return cls.model_validate(
            {
                **vars(audit),
                "sentence": audit.sentence(),
                "broken": tuple(broken),
                "leaks": largest,
                "leak_count": len(audit.leaks),
            }
        )

    def __repr__(self) -> str:
        return f"<Audit {self.target}: {self.sentence}>"

    def __str__(self) -> str:
        return repr(self)

    @property
    def is_valid(self) -> bool:
        """Whether the run's scores mean anything."""
        return self.verdict not in INVALID_VERDICTS and not self.broken

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why they do not; empty if they do."""
        leak = (f"the model {self.sentence}",) if self.verdict == "leak" else ()
        coupling = (self.sentence,) if self.verdict == "batch coupling" else ()
        return (*leak, *coupling, *self.broken)

    def reused(self, *, audited: str, seconds: float) -> Self:
        """For another run of the same architecture, whose own weights were looked at briefly."""
        date, found = audited.partition("T")[0], self.sentence.partition(": ")[2]
        return self.model_copy(
            update={
                "audited": audited,
                "sentence": f"clean, as audited on {date} for the same architecture: {found}",
                "checked": (*self.checked, THESE_WEIGHTS),
                "seconds": seconds,
            }
        )

    def without_leaks(self) -> Self:
        return self.model_copy(update={"leaks": ()})


class AuditEvent(Event):
    event: Literal["audit"] = "audit"
    audit: AuditRecord


class ContaminationRecord(JsonRecord):
    """Evaluated items of a split that stand in training; its scores are over the others."""

    split: str
    unit: str
    "What is counted, in the plural: rows, documents."
    n: int
    overlapping: int
    exact: int
    "Those that stand in training word for word."
    agree: int | None = None
    "Overlapping items whose label agrees with training; None where there are no labels."
    flipped: int | None = None
    "Overlapping items that have another label in training."
    estimates: tuple[ScoreRecord, ...] = ()
    "Of model and baselines over all items, the overlapping ones included."

    @property
    def clean(self) -> int:
        return self.n - self.overlapping

    @property
    def sentence(self) -> str:
        """`93 of 150 test rows stand in training (41 word for word)`"""
        return (
            f"{self.overlapping:,} of {self.n:,} {self.split} {self.unit} stand in training "
            f"({self.exact:,} word for word)"
        )

    @property
    def consequence(self) -> str:
        """What the labels say, and which items the scores are over."""
        clean = f"the {self.clean:,} clean {self.unit}"
        scored = f"scores are over {clean}" if self.clean else "none is clean, so there is no score"
        if 0 < self.clean < MIN_ITEMS:
            scored += f", too few for a verdict: it takes {MIN_ITEMS}"
        if self.agree is None or self.flipped is None:
            return scored
        labels = f"{self.agree:,} with the label they have there, {self.flipped:,} with another"
        return f"{labels}; {scored}"

    def all_items_sentence(self, metric: str) -> str:
        """`test, all 150 rows: accuracy of model 0.767 [0.693, 0.827]; majority class 0.540 …`"""
        scores = [
            f"{row.of} {with_interval(row)}" for row in self.estimates if row.metric == metric
        ]
        return f"{self.all_items}: {metric_label(metric)} of {'; '.join(scores)}"

    @property
    def all_items(self) -> str:
        return f"{self.split}, all {self.n:,} {self.unit}"


class EvaluationRecord(JsonRecord, HtmlDisplay):
    """Scores of a trained model and its baselines."""

    run: str
    weights: str = ""
    "Fingerprint of the evaluated weights."
    estimates: tuple[ScoreRecord, ...]
    comparisons: tuple[ComparisonRecord, ...] = ()
    audit: AuditRecord | None = None
    "None if the run was not audited."
    health: HealthRecord | None = None
    "None if it was not judged."
    remarks: tuple[str, ...] = ()
    data_flaws: tuple[str, ...] = ()
    "What lets a model be right on this data without learning, or wrong whatever it learns."
    contamination: tuple[ContaminationRecord, ...] = ()
    "Of the splits whose scores leave out overlapping items."

    @property
    def main(self) -> str:
        """Name of the score that the run is judged by: the model's first."""
        return next((row.metric for row in self.estimates if row.of == MODEL), "perplexity")

    @property
    def summary(self) -> str:
        """`dev perplexity 251 [238, 265], audit clean`"""
        model = [row for row in self.estimates if row.of == MODEL and row.metric == self.main]
        last = next((row for row in model if row.split == "dev"), model[-1] if model else None)
        score = "" if last is None else f"{last.split} {metric_label(last.metric)} "
        audit = "none" if self.audit is None else self.audit.verdict
        return f"{score}{with_interval(last)}, audit {audit}".lstrip()

    def __repr__(self) -> str:
        return f"<{type(self).__name__.removesuffix('Record')} {self.run}: {self.summary}>"

    def __str__(self) -> str:
        return repr(self)

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


class ResultsRecord(EvaluationRecord):
    """All of results.json."""

    finished: str
    sealed: bool = False
    "Whether a seal was written with it."
    identity: str = ""
    "Equal for two runs of the same recipe on the same data."
    metric: dict[str, Any] = Field(default_factory=lambda: {"kind": "perplexity"})
    "Settings of the metric that turns the run's items into estimates."
    items: dict[str, dict[str, str]] = Field(default_factory=dict)
    "By split: fingerprints of the evaluated documents, and of their scored tokens."
    tables: dict[str, list[Mapping[str, Any]]] = Field(default_factory=dict)
    "Breakdowns of the scores, by name: a curve, a score by length."
    order: str = ""
    "Equal for two runs that were trained on the same rows in the same order."
    corpus: CorpusStatistics | None = None
    tokenizer: TokenizerRecord | None = None
    cost: CostRecord = CostRecord()
    ledger: Ledger | None = None
    "None if the run has none."
    samples: tuple[SampleRecord, ...] = ()
    environment: Mapping[str, str | int | float | None] = Field(default_factory=dict)


def write_results(file: Path, results: ResultsRecord) -> None:
    """Write the results and the seal over all that is read of a finished run."""
    sealed_with = [path for pattern in SEALED for path in file.parent.glob(pattern)]
    table = {"schema": RESULTS_SCHEMA, **record_table(results)}
    write_and_seal(file, table, sealed_with=sealed_with)


def read_results(file: Path) -> ResultsRecord | None:
    """The final results; None while the run is not finished."""
    hint = "Delete the file to report what the events say, or train the run again."
    check_sealed(file.parent, file.name, topic="run", hint=hint)
    if file.exists():
        results = read_record(file, ResultsRecord, schema=RESULTS_SCHEMA, topic="run", hint=hint)
        if results.sealed:
            check_seal(file.parent, file.name, topic="run", hint=hint)
        return results
    if (former := file.with_name(FORMER_RESULTS)).exists():
        raise UserError(
            f"schema 1 of an earlier version; this regard reads {file.name}, schema "
            f"{RESULTS_SCHEMA}",
            topic="run",
            where=str(former),
            hint="Use the version of regard that wrote it, or train the run again.",
        )
    return None


def write_audit(file: Path, audit: AuditRecord) -> None:
    write_record(file, audit, schema=AUDIT_SCHEMA)


def read_audit(file: Path) -> AuditRecord | None:
    """The audit saved when the run began; None if there is none."""
    hint = "Train the run again."
    check_sealed(file.parent, file.name, topic="run", hint=hint)
    if not file.is_file():
        return None
    return read_record(file, AuditRecord, schema=AUDIT_SCHEMA, topic="run", hint=hint)
