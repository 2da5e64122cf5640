"""The run folders behind a study's outcome, read back for its report.

The outcome holds estimates and verdicts. Curves, corpus, fingerprints, leaks and comparisons with
the baselines come from the runs; a run that is deleted or damaged since is listed with the reason.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.audits.findings import Leak
from regard.core.errors import UserError
from regard.core.toml import flatten
from regard.data.statistics import CorpusStatistics
from regard.evaluation.formatting import ABSENT, join_words
from regard.runs.archive.read_run import read_run
from regard.runs.archive.record import RunRecord
from regard.runs.health_record import HealthRecord
from regard.runs.results import ResultsRecord, ScoreRecord, TokenizerRecord, read_audit
from regard.runs.run import Run
from regard.studies.outcome import Outcome, VariantOutcome


@dataclass(frozen=True)
class Evidence:
    """A study's outcome and the records of its runs."""

    outcome: Outcome
    home: Path
    records: Mapping[str, Mapping[int, RunRecord]]
    "Finished runs that could be read, by variant and seed."
    unreadable_runs: tuple[str, ...]
    "Runs in the outcome that can no longer be read, each with the reason."
    running: Mapping[str, Mapping[int, RunRecord]] = field(default_factory=dict)
    "Runs that have not ended, by variant and seed; their curves alone are drawn."

    @property
    def variants(self) -> list[VariantOutcome]:
        return self.outcome.variants

    @property
    def valid_variants(self) -> list[VariantOutcome]:
        """Variants without a leak that have estimates."""
        return [variant for variant in self.variants if variant.is_valid and variant.estimates]

    def first_results(self, variant: str) -> ResultsRecord | None:
        """Results of the variant's first readable seed."""
        return next((run.results for run in self.records[variant].values()), None)

    @property
    def corpus(self) -> CorpusStatistics | None:
        """The reference's corpus; all variants of a study train on the same one."""
        names = (self.outcome.reference, *self.records)
        results = filter(None, map(self.first_results, names))
        return next((one.corpus for one in results if one.corpus), None)

    @property
    def tokenizers(self) -> dict[str, TokenizerRecord]:
        results = {name: self.first_results(name) for name in self.records}
        return {name: one.tokenizer for name, one in results.items() if one and one.tokenizer}

    @property
    def other_tokenizers(self) -> list[str]:
        """Variants whose tokenizer differs from the reference's."""
        tokenizers = self.tokenizers
        reference = tokenizers.get(self.outcome.reference)
        return [
            name
            for name, tokenizer in tokenizers.items()
            if reference and tokenizer.fingerprint != reference.fingerprint
        ]

    @property
    def sample_flags(self) -> dict[str, str]:
        """By variant: what is wrong with its generated text, and in how many seeds."""
        flags = {}
        for name in self.records:
            health = self.health(name)
            flagged = [one for one in health if one.flags]
            if flagged:
                seeds = f" ({len(flagged)} of {len(health)} seeds)" if len(health) > 1 else ""
                flags[name] = "; ".join(flagged[0].flags) + seeds
        return flags

    def health(self, variant: str) -> list[HealthRecord]:
        runs = self.records[variant].values()
        return [run.results.health for run in runs if run.results and run.results.health]

    @property
    def misleading_perplexity(self) -> list[str]:
        """Variants that beat the unigram baseline although their samples are flagged."""
        return [
            name
            for name, runs in self.records.items()
            if any(run.results and run.results.samples_belie_perplexity for run in runs.values())
        ]


def read_evidence(home: Path, outcome: Outcome) -> Evidence:
    """The outcome with those of its runs that can be read."""
    records: dict[str, dict[int, RunRecord]] = {variant.name: {} for variant in outcome.variants}
    unreadable = []
    for variant in outcome.variants:
        for run in variant.runs:
            if run.reason or not run.folder:
                continue
            try:
                record = read_run(home / run.folder)
            except UserError as problem:  # deleted or damaged since
                unreadable.append(f"{variant.name} · seed {run.seed}: {problem}")
                continue
            if record.results is None:
                unreadable.append(f"{variant.name} · seed {run.seed}: its results.json is gone")
            else:
                records[variant.name][run.seed] = record
    return Evidence(outcome, home, records, tuple(unreadable))


def recorded_leaks(evidence: Evidence, variant: VariantOutcome) -> list[Leak]:
    """The largest leaks the audit recorded for the first seed, at one sequence length."""
    for run in variant.runs:
        try:
            audit = read_audit(Run(evidence.home / run.folder).audit_file)
        except UserError:  # damaged: the outcome still has its sentence
            continue
        if audit is not None and audit.leaks:
            return [leak for leak in audit.leaks if leak.where == audit.leaks[0].where]
    return []


def versus_baseline(evidence: Evidence, baseline: ScoreRecord) -> str:
    """`both are behind it`: the runs' own verdicts, paired on the same documents."""
    grouped: dict[str, list[str]] = {}
    for variant in evidence.valid_variants:
        runs = evidence.records[variant.name].values()
        verdicts = Counter(
            compared.verdict.value
            for run in runs
            for compared in (run.results.comparisons if run.results else ())
            if (compared.split, compared.metric) == (baseline.split, baseline.metric)
            and compared.against == baseline.of
        )
        if verdicts:
            grouped.setdefault(_versus_text(verdicts), []).append(variant.name)
    n_variants = len(evidence.variants)
    clauses = []
    for verdict, names in grouped.items():
        if len(names) == n_variants > 1:
            return f"{'both' if n_variants == 2 else 'all'} are {verdict}"
        clauses.append(f"{join_words(names)} {'is' if len(names) == 1 else 'are'} {verdict}")
    return "; ".join(clauses)


def _versus_text(verdicts: Counter[str]) -> str:
    """`behind it`; counts of seeds where they disagree."""
    seeds = verdicts.total()
    if len(verdicts) == 1:
        return f"{next(iter(verdicts))} it"
    return ", ".join(f"{verdict} it with {n} of {seeds} seeds" for verdict, n in verdicts.items())


@dataclass(frozen=True)
class DifferingSetting:
    """A setting whose value differs between the resolved recipes."""

    key: str
    values: tuple[str, ...]
    "One for each variant, formatted as in TOML."
    tuned: bool


def differing_settings(outcome: Outcome) -> list[DifferingSetting]:
    tables = [dict(_flat_recipe(variant)) for variant in outcome.variants]
    return differing_values(tables, tuned=outcome.tuned)


def differing_values(
    tables: Sequence[Mapping[str, Any]], *, tuned: Sequence[str] = ()
) -> list[DifferingSetting]:
    """Of flat recipes; one that could not be read is empty, and differs in nothing."""
    readable = [table for table in tables if table]
    differing = []
    for key in dict.fromkeys(key for table in readable for key in table):
        if key != "name" and len({_setting_text(table, key) for table in readable}) > 1:
            values = tuple(_setting_text(table, key) for table in tables)
            differing.append(DifferingSetting(key, values, key in tuned))
    return differing


def _flat_recipe(variant: VariantOutcome) -> Iterator[tuple[str, Any]]:
    try:
        yield from flatten(tomllib.loads(variant.recipe)).items()
    except tomllib.TOMLDecodeError:  # edited or truncated since
        return


def _setting_text(table: Mapping[str, Any], key: str) -> str:
    return format_setting(table[key]) if key in table else ABSENT


def format_setting(value: Any) -> str:
    """A setting's value as in a recipe: `0.001`, `"additive"`, `[1, 2]`."""
    return json.dumps(value, ensure_ascii=False, default=str)


def shown_metrics(outcome: Outcome) -> list[str]:
    """The deciding metric, then perplexity if it is another one."""
    decides = outcome.decides.partition(".")[2]
    available = {key.partition(".")[2] for v in outcome.variants for key in v.estimates}
    return [metric for metric in dict.fromkeys((decides, "perplexity")) if metric in available]


def score_keys(outcome: Outcome, metric: str) -> list[str]:
    """`dev.perplexity` and the like: the deciding split first, train last."""
    decides = outcome.decides.partition(".")[0]
    splits = dict.fromkeys((decides, "dev", "test", "train"))
    available = {key for variant in outcome.variants for key in variant.estimates}
    return [key for key in (f"{split}.{metric}" for split in splits) if key in available]
