"""What a study found, as it is written to outcome.json and shown by its report."""

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

OUTCOME_SCHEMA = 1


@dataclass(frozen=True)
class RunOutcome:
    """One training, and whether it can be used."""

    seed: int
    folder: str
    "From the study's own folder."
    reason: str = ""
    "Why it is left out; empty where it is not."


@dataclass
class VariantOutcome:
    """Everything that was found about one variant."""

    name: str
    changes: Mapping[str, Any]
    runs: list[RunOutcome] = field(default_factory=list)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    "What tuning chose for it, by dotted key."
    trials: Sequence[Mapping[str, Any]] = ()
    "What tuning tried: values by dotted key, the deciding figure of each, and why where none."
    parameters: int = 0
    trained: int | None = None
    "Parameters that training could change, where a model was adapted; None: all of them."
    steps: int = 0
    tokens: int = 0
    operations: float = 0.0
    "Of one update: matrix products, estimated."
    seconds: float = math.nan
    "Of training, the mean over seeds."
    tokens_per_second: float = math.nan
    peak_memory_bytes: float = math.nan
    final_loss: float = math.nan
    "Training loss over the last steps that were told together, the mean over seeds; not a result."
    figures: dict[str, SeedSpread] = field(default_factory=dict)
    "By part.metric."
    audit: Mapping[str, Any] | None = None
    collapsed: str = ""
    "How it answers one class for every row, with one seed at least; empty where it does not."
    health: Mapping[str, Any] | None = None
    samples: Sequence[Mapping[str, str]] = ()
    "Of the first seed."
    probes: Sequence[Mapping[str, Any]] = ()
    "text, loss and perplexity: means over seeds, and per_seed."
    recipe: str = ""
    "Of the first seed, as TOML."

    @property
    def is_valid(self) -> bool:
        """Whether its figures mean what they say."""
        seen = self.audit
        return seen is None or not (seen["verdict"] == "leak" or seen["broken"])

    @property
    def is_ranked(self) -> bool:
        """Whether it may be called better or worse than another."""
        return self.is_valid and not self.collapsed


@dataclass(frozen=True)
class VerdictOutcome:
    """A variant against the reference on one figure."""

    figure: str
    "part.metric"
    variant: str
    reference: str
    words: str
    notes: tuple[str, ...]
    better: str
    "The better variant; empty where none is found, or none may be named."
    value: float | None = None
    "variant − reference"
    low: float | None = None
    high: float | None = None
    per_seed: tuple[float, ...] = ()
    n: int = 0
    seeds: int = 0
    speaks_of: str = ""


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
    "On the deciding figure first."
    baselines: list[Mapping[str, Any]]
    "part, metric, of, value, low, high, n"
    unequal: list[str]
    "What is not the same between the variants and should be."
    invalid: list[str]
    "Variants whose figures mean nothing, and why."
    missing: list[str]
    "Runs that are left out, and why."
    remarks: list[str]
    command: str
    "What makes it again."
    collapsed: list[str] = field(default_factory=list)
    "Variants that answer one class for every row, and so are not ranked."

    def as_dict(self) -> dict[str, Any]:
        return {"schema": OUTCOME_SCHEMA, **asdict(self)}

    def variant(self, name: str) -> VariantOutcome:
        return next(variant for variant in self.variants if variant.name == name)


def read_outcome(home: Path) -> Outcome:
    """What the study in `home` found, from its outcome.json."""
    file = home / "outcome.json"
    if not file.is_file():
        raise UserError(
            "not a finished study: it has no outcome.json",
            topic="study",
            where=str(home),
            hint="`regard compare STUDY` writes it at its end; a stopped study goes on with it.",
        )
    table = read_json(file, schema=OUTCOME_SCHEMA)
    try:
        return outcome_of(table)
    except (ValidationError, ValueError) as problem:
        raise UserError(
            f"damaged{_first_complaint(problem)}",
            topic="study",
            where=str(file),
            hint="Run the study again: finished trainings are kept, and it is written anew.",
        ) from None


def outcome_of(table: Mapping[str, Any]) -> Outcome:
    """The inverse of `as_dict`, with every text made fit to be shown."""
    shown = {key: value for key, value in printable(dict(table)).items() if key != "schema"}
    outcome: Outcome = _OUTCOMES.validate_python(shown)
    names = [variant.name for variant in outcome.variants]
    named = [
        outcome.reference,
        *(side for v in outcome.verdicts for side in (v.variant, v.reference)),
    ]
    for name in named:
        if name not in names:
            raise ValueError(f"{name} is judged and is no variant")
    for variant in outcome.variants:
        if variant.audit is not None:
            AuditRecord.model_validate(variant.audit)
    for baseline in outcome.baselines:
        ScoreRecord.model_validate(baseline)
    return outcome


_OUTCOMES = TypeAdapter(Outcome)


def _first_complaint(problem: ValueError) -> str:
    if not isinstance(problem, ValidationError):
        return f": {problem}"
    first = problem.errors()[0]
    return f" at {'.'.join(map(str, first['loc']))}: {first['msg']}"
