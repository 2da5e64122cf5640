"""The result of a study, as stored in outcome.json and shown in its report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from regard.core.errors import UserError
from regard.core.files import read_json
from regard.runs.archive.read_run import printable
from regard.runs.archive.record import AuditRecord, ScoreRecord
from regard.studies.seed_spread import SeedSpread

OUTCOME_SCHEMA = 2


@dataclass(frozen=True)
class RunOutcome:
    """One run of a variant, and whether it is used."""

    seed: int
    folder: str
    "Relative to the study's folder."
    reason: str = ""
    "Why it is left out; empty if it is used."


@dataclass
class VariantOutcome:
    """The results of one variant."""

    name: str
    changes: Mapping[str, Any]
    runs: list[RunOutcome] = field(default_factory=list)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    "The tuned values, by dotted key."
    trials: Sequence[Mapping[str, Any]] = ()
    "Tuning trials: values by dotted key, the deciding score, and the reason if there is none."
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
    audit: Mapping[str, Any] | None = None
    collapsed: str = ""
    "How it predicts one class for every row, with at least one seed; empty if it does not."
    health: Mapping[str, Any] | None = None
    samples: Sequence[Mapping[str, str]] = ()
    "Of the first seed."
    probes: Sequence[Mapping[str, Any]] = ()
    "text, loss and perplexity (means over seeds), and per_seed."
    recipe: str = ""
    "Of the first seed, as TOML."

    @property
    def is_valid(self) -> bool:
        """Whether its scores can be trusted: no leak, nothing broken."""
        audit = self.audit
        return audit is None or not (audit["verdict"] == "leak" or audit["broken"])

    @property
    def is_ranked(self) -> bool:
        """Whether it may be called better or worse than another variant."""
        return self.is_valid and not self.collapsed


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
    seeds: int = 0
    scope: str = ""


@dataclass
class Outcome:
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
    baselines: list[Mapping[str, Any]]
    "split, metric, of, value, low, high, n"
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

    def as_dict(self) -> dict[str, Any]:
        return {"schema": OUTCOME_SCHEMA, **asdict(self)}

    def variant(self, name: str) -> VariantOutcome:
        return next(variant for variant in self.variants if variant.name == name)


def read_outcome(home: Path) -> Outcome:
    """Read outcome.json of the study folder `home`."""
    file = home / "outcome.json"
    if not file.is_file():
        raise UserError(
            "not a finished study: it has no outcome.json",
            topic="study",
            where=str(home),
            hint="`regard compare STUDY` writes it at the end, and resumes an interrupted study.",
        )
    table = read_json(file, schema=OUTCOME_SCHEMA)
    try:
        return parse_outcome(table)
    except (ValidationError, ValueError) as problem:
        raise UserError(
            f"damaged{_first_error(problem)}",
            topic="study",
            where=str(file),
            hint="Run the study again: finished runs are kept, and the file is rewritten.",
        ) from None


def parse_outcome(table: Mapping[str, Any]) -> Outcome:
    """The inverse of `as_dict`, control characters made visible."""
    fields = {key: value for key, value in printable(dict(table)).items() if key != "schema"}
    outcome: Outcome = _OUTCOME_ADAPTER.validate_python(fields)
    names = [variant.name for variant in outcome.variants]
    compared = [
        outcome.reference,
        *(side for v in outcome.verdicts for side in (v.variant, v.reference)),
    ]
    for name in compared:
        if name not in names:
            raise ValueError(f"{name} has a verdict but is no variant")
    for variant in outcome.variants:
        if variant.audit is not None:
            AuditRecord.model_validate(variant.audit)
    for baseline in outcome.baselines:
        ScoreRecord.model_validate(baseline)
    return outcome


_OUTCOME_ADAPTER = TypeAdapter(Outcome)


def _first_error(problem: ValueError) -> str:
    if not isinstance(problem, ValidationError):
        return f": {problem}"
    first = problem.errors()[0]
    return f" at {'.'.join(map(str, first['loc']))}: {first['msg']}"
