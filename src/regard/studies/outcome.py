"""The result of a study, as stored in outcome.json and shown in its report."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from regard.core.errors import UserError
from regard.core.html_display import HtmlDisplay
from regard.core.json_records import read_record, record_table
from regard.core.seal import check_seal, check_sealed, write_and_seal
from regard.evaluation.metrics.metric import is_lower_better
from regard.evaluation.statistics.divergence import DivergenceCount
from regard.runs.health_record import HealthRecord
from regard.runs.results import AuditRecord, ContaminationRecord, SampleRecord, ScoreRecord
from regard.studies.engines.efficiency import Efficiency
from regard.studies.seed_spread import SeedSpread
from regard.studies.verdicts.looks import Look
from regard.studies.verdicts.planned_looks import LooksRecord

OUTCOME_FILE = "outcome.json"
OUTCOME_SCHEMA = 4
SEALED = ("inspections/*.json",)
"What is sealed with outcome.json; runs have seals of their own."
FORMER_SCHEMAS = (3,)
"Without groups, looks and divergence: what an earlier version judged is a look too."


@dataclass(frozen=True)
class RunOutcome:
    """One run of a variant, and whether it is used."""

    seed: int
    folder: str
    "Relative to the study's folder; empty for results that regard did not make."
    reason: str = ""
    "Why it is left out; empty if it is used."
    diverged: str = ""
    "How its training diverged, in words; empty if it did not."


@dataclass(frozen=True)
class TrialOutcome:
    """A tuning trial: values by dotted key, and the deciding score on dev."""

    values: Mapping[str, Any]
    score: float | None
    reason: str = ""
    "Why there is no score."


@dataclass(frozen=True)
class ProbeOutcome:
    """Loss on a probe sentence; loss and perplexity are means over seeds."""

    text: str
    loss: float
    perplexity: float
    per_seed: tuple[float, ...]


@dataclass
class VariantOutcome:
    """The results of one variant."""

    name: str
    changes: Mapping[str, Any]
    runs: list[RunOutcome] = field(default_factory=list)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    "The tuned values, by dotted key."
    trials: Sequence[TrialOutcome] = ()
    parameters: int = 0
    trained: int | None = None
    "Trainable parameters of an adapted model; None: all of them."
    steps: int = 0
    tokens: int = 0
    operations: float = 0.0
    "FLOPs of one update: matrix products only, estimated."
    seconds: float = math.nan
    "Training time, mean over seeds."
    tokens_per_second: float = math.nan
    peak_memory_bytes: float = math.nan
    final_loss: float = math.nan
    "Training loss of the last logged window, mean over seeds; not a result."
    estimates: dict[str, SeedSpread] = field(default_factory=dict)
    "By score key, split.metric."
    audit: AuditRecord | None = None
    collapsed: str = ""
    "How it predicts one class for every row, with at least one seed; empty if it does not."
    diverged: str = ""
    "With how many seeds its training diverged; empty if with none."
    health: HealthRecord | None = None
    samples: Sequence[SampleRecord] = ()
    "Of the first seed."
    probes: Sequence[ProbeOutcome] = ()
    recipe: str = ""
    "Of the first seed, as TOML."

    @property
    def is_valid(self) -> bool:
        """Whether its scores can be trusted: no leak, nothing broken."""
        return self.audit is None or self.audit.is_valid

    @property
    def is_ranked(self) -> bool:
        """Whether it may be called better or worse than another variant."""
        return self.is_valid and not self.collapsed and not self.diverged


@dataclass(frozen=True)
class VerdictOutcome:
    """A variant against the reference on one score."""

    score_key: str
    "split.metric, such as dev.perplexity"
    variant: str
    reference: str
    sentence: str
    notes: tuple[str, ...]
    better: str
    "The better variant; empty if there is no difference, or no comparison."
    value: float | None = None
    "variant − reference"
    low: float | None = None
    high: float | None = None
    per_seed: tuple[float, ...] = ()
    n: int = 0
    groups: int | None = None
    "Number of groups of items; None where every item stands alone."
    seeds: int = 0
    scope: str = ""
    level: float = 0.95
    "Confidence level of the interval."
    look: int = 0
    "The planned look at which it was judged, from 1; 0 without a plan."
    chance: float | None = None
    "Before the last look: the probability that a later one differs."
    is_preview: bool = False
    "Whether runs of the look are missing, so that there is no verdict."


@dataclass(frozen=True)
class ResultSource:
    """Where the results of a variant come from, if regard did not make them."""

    variant: str
    file: str
    "Empty for values given in Python."
    format: str
    rows: int
    sha256: str = ""


@dataclass(frozen=True)
class DivergenceOutcome:
    """How often a variant and the reference diverged; a result of its own, beside no mean."""

    variant: str
    reference: str
    diverged: DivergenceCount
    reference_diverged: DivergenceCount
    p: float
    "Of Fisher's exact test, adjusted by Holm's method if several variants are compared."
    sentence: str
    better: str
    "Which diverges less often; empty if they are not distinguishable."


@dataclass(frozen=True)
class StudyContamination:
    """The overlap of one split, and what the scores would be with all of its items."""

    overlap: ContaminationRecord
    "Of items that overlap in any run."
    estimates: Mapping[str, SeedSpread] = field(default_factory=dict)
    "By variant: the deciding metric over all items."


@dataclass
class Outcome(HtmlDisplay):
    """A study's result."""

    name: str
    question: str
    decides: str
    reference: str
    seeds: tuple[int, ...]
    budget: str
    tuned: tuple[str, ...]
    "Dotted keys that were tuned on dev."
    variants: list[VariantOutcome]
    verdicts: list[VerdictOutcome]
    "Those on the deciding score first."
    baselines: list[ScoreRecord]
    unequal: list[str]
    "Conditions that should be equal between variants and are not."
    invalid: list[str]
    "Variants whose scores mean nothing, and why."
    missing: list[str]
    "Runs that are left out, and why."
    remarks: list[str]
    command: str
    "Reproduces the study."
    collapsed: list[str] = field(default_factory=list)
    "Variants that predict one class for every row, and are therefore not ranked."
    diverged: list[str] = field(default_factory=list)
    "Variants of which trainings diverged, and which therefore have no mean that is judged."
    divergences: list[DivergenceOutcome] = field(default_factory=list)
    "Of each variant against its reference, where either diverged."
    contamination: list[StudyContamination] = field(default_factory=list)
    "Splits with items that stand in training; the scores leave these items out."
    data_flaws: list[str] = field(default_factory=list)
    "What lets a model be right on the runs' data without learning, or wrong whatever it learns."
    looks: list[Look] = field(default_factory=list)
    "What was judged at other seeds before, and last what is judged now."
    plan: LooksRecord | None = None
    "The planned looks and how far the study came; None where seeds are a list."
    sources: Sequence[ResultSource] = ()
    "What was judged; empty for a study, whose runs regard trained."
    lower_is_better: bool | None = None
    "Of a deciding score that is not regard's own; None: as its metric declares."
    efficiency: Efficiency | None = None
    "None where regard trained nothing."
    sealed: bool = False
    "Whether a seal was written with it."
    folder: Annotated[Path, Field(exclude=True)] = Path()
    "The study's folder; not stored in it."

    def __post_init__(self) -> None:
        names = [variant.name for variant in self.variants]
        compared = [side for one in self.verdicts for side in (one.variant, one.reference)]
        for name in (self.reference, *compared):
            if name not in names:
                raise ValueError(f"{name} has a verdict but is no variant")

    @property
    def prefers_less(self) -> bool:
        """Whether less of the deciding score is better."""
        if self.lower_is_better is not None:
            return self.lower_is_better
        return is_lower_better(self.decides.partition(".")[2])

    @property
    def is_trained(self) -> bool:
        """Whether regard trained what is compared, and so knows its cost, audit and recipe."""
        return not self.sources

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        """`<Outcome dot-vs-additive: not distinguishable at this size: …>`"""
        invalid = f"invalid: {self.invalid[0]}" if self.invalid else ""
        verdicts = ["; ".join((one.sentence, *one.notes[:1])) for one in self.verdicts[:1]]
        verdict = invalid or next(iter(verdicts), "no verdict")
        return f"<Outcome {self.name}: {verdict}>"

    def as_dict(self) -> dict[str, Any]:
        return record_table(self)

    def variant(self, name: str) -> VariantOutcome:
        return next(variant for variant in self.variants if variant.name == name)

    def lacks_runs(self, only: Collection[str] = ()) -> bool:
        """Whether a run is missing of any variant, or of those in `only`."""
        variants = [one for one in self.variants if not only or one.name in only]
        return any(run.reason and not run.diverged for one in variants for run in one.runs)

    def shared_seeds(self, verdict: VerdictOutcome) -> tuple[int, ...]:
        """Seeds with which both sides of a verdict have a run that is used: of a comparison that an
        earlier look decided, those it had then."""
        ours, theirs = (
            [run.seed for run in self.variant(name).runs if not run.reason]
            for name in (verdict.variant, verdict.reference)
        )
        shared = tuple(seed for seed in ours if seed in theirs)
        return shared[: verdict.seeds] if verdict.look else shared

    def check_some_run_is_finished(self) -> None:
        if all(run.reason for variant in self.variants for run in variant.runs):
            raise UserError(
                f"no run of {self.folder} is finished: {[*self.missing, *self.diverged][0]}",
                topic="study",
                hint=f"All reasons are in {self.folder / 'report.html'}.",
            )

    def estimates(self) -> list[dict[str, Any]]:
        """Every score as a flat row: of each variant over its seeds, then of each baseline."""
        rows = [
            _estimate_row(variant.name, key, estimate)
            | {"seeds": len(estimate.per_seed), "is_valid": variant.is_valid}
            for variant in self.variants
            for key, estimate in variant.estimates.items()
        ]
        return rows + [
            _estimate_row(score.of, f"{score.split}.{score.metric}", score)
            | {"seeds": None, "is_valid": True}
            for score in self.baselines
        ]

    def table(self) -> list[dict[str, Any]]:
        """A flat row for each variant: its changes, size, cost, audit, and scores as columns."""
        return [
            {
                "variant": variant.name,
                **variant.changes,
                **variant.chosen,
                "parameters": variant.parameters,
                "trained": variant.parameters if variant.trained is None else variant.trained,
                "steps": variant.steps,
                "tokens": variant.tokens,
                "seconds": variant.seconds,
                "tokens_per_second": variant.tokens_per_second,
                "audit": variant.audit.verdict if variant.audit else None,
                "is_ranked": variant.is_ranked,
                **{key: estimate.value for key, estimate in variant.estimates.items()},
            }
            for variant in self.variants
        ]


def _estimate_row(of: str, score_key: str, estimate: SeedSpread | ScoreRecord) -> dict[str, Any]:
    split, _, metric = score_key.partition(".")
    fields = ("value", "low", "high", "n", "items", "groups")
    return {
        "of": of,
        "split": split,
        "metric": metric,
        **{name: getattr(estimate, name) for name in fields},
    }


def read_outcome(home: Path) -> Outcome:
    """Read outcome.json of the study folder `home`."""
    file = home / OUTCOME_FILE
    if not file.is_file():
        raise UserError(
            "not a finished study: it has no outcome.json",
            topic="study",
            where=str(home),
            hint="`regard compare STUDY` writes it at the end, and resumes an interrupted study.",
        )
    hint = "Run the study again: finished runs are kept, and the file is rewritten."
    check_sealed(home, file.name, topic="study", hint=hint)
    outcome = read_record(
        file, Outcome, schema=OUTCOME_SCHEMA, former=FORMER_SCHEMAS, topic="study", hint=hint
    )
    if outcome.sealed:
        check_seal(home, file.name, topic="study", hint=hint)
    outcome.folder = home
    return outcome


def write_outcome(home: Path, outcome: Outcome) -> Outcome:
    """Write outcome.json into the study folder `home`; the outcome as it will be read."""
    table = {"schema": OUTCOME_SCHEMA, **record_table(outcome)}
    sealed_with = [path for pattern in SEALED for path in home.glob(pattern)]
    write_and_seal(home / OUTCOME_FILE, table, sealed_with=sealed_with)
    return read_outcome(home)
