"""What stands behind an outcome: the study's run folders, read back for its report.

The outcome holds what was judged. Curves, corpus, fingerprints, leaks and how each training stands
against its baselines are read from the runs; one that is gone or damaged since then is named, and
the rest is shown without it.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.toml import flatten
from regard.evaluation.formatting import ABSENT, join_words
from regard.runs.archive.read_run import printable, read_run
from regard.runs.archive.record import (
    CorpusRecord,
    HealthRecord,
    ResultsRecord,
    RunRecord,
    ScoreRecord,
    TokenizerRecord,
)
from regard.runs.run import Run
from regard.runs.training_audit import recorded_audit
from regard.studies.outcome import Outcome, VariantOutcome


@dataclass(frozen=True)
class LeakRecord:
    """Forbidden influence of a key on a query, both counted from 0."""

    query: int
    key: int
    influence: float


@dataclass(frozen=True)
class Evidence:
    """An outcome with the runs it was made from."""

    outcome: Outcome
    home: Path
    records: Mapping[str, Mapping[int, RunRecord]]
    "Finished runs that could be read, by variant and seed."
    unread: tuple[str, ...]
    "Runs that were judged and cannot be read any more, and why."

    @property
    def variants(self) -> list[VariantOutcome]:
        return self.outcome.variants

    @property
    def valid(self) -> list[VariantOutcome]:
        """Variants whose figures mean what they say, as far as they were measured."""
        return [variant for variant in self.variants if variant.is_valid and variant.figures]

    def first(self, variant: str) -> ResultsRecord | None:
        """What was measured with the variant's first seed."""
        return next((run.figures for run in self.records[variant].values()), None)

    @property
    def corpus(self) -> CorpusRecord | None:
        """The reference's; all variants of a study read the same text."""
        names = (self.outcome.reference, *self.records)
        measured = filter(None, map(self.first, names))
        return next((one.corpus for one in measured if one.corpus), None)

    @property
    def tokenizers(self) -> dict[str, TokenizerRecord]:
        measured = {name: self.first(name) for name in self.records}
        return {name: one.tokenizer for name, one in measured.items() if one and one.tokenizer}

    @property
    def other_tokens(self) -> list[str]:
        """Variants with another tokenizer than the reference: their tokens are other tokens."""
        known = self.tokenizers
        reference = known.get(self.outcome.reference)
        return [
            name
            for name, one in known.items()
            if reference and one.fingerprint != reference.fingerprint
        ]

    @property
    def flagged(self) -> dict[str, str]:
        """By variant, what is wrong with what it writes, and with how many seeds."""
        found = {}
        for name in self.records:
            health = self.health(name)
            bad = [one for one in health if one.flags]
            if bad:
                seeds = f" ({len(bad)} of {len(health)} seeds)" if len(health) > 1 else ""
                found[name] = "; ".join(bad[0].flags) + seeds
        return found

    def health(self, variant: str) -> list[HealthRecord]:
        runs = self.records[variant].values()
        return [run.figures.health for run in runs if run.figures and run.figures.health]

    @property
    def belied(self) -> list[str]:
        """Variants that beat the unigram baseline while what they write has collapsed."""
        return [
            name
            for name, runs in self.records.items()
            if any(run.figures and run.figures.samples_belie_perplexity for run in runs.values())
        ]


def read_evidence(home: Path, outcome: Outcome) -> Evidence:
    """The runs of the outcome, as far as they are there."""
    records: dict[str, dict[int, RunRecord]] = {variant.name: {} for variant in outcome.variants}
    unread = []
    for variant in outcome.variants:
        for run in variant.runs:
            if run.reason:
                continue
            try:
                record = read_run(home / run.folder)
            except UserError as problem:  # deleted or damaged since: the others are shown
                unread.append(f"{variant.name} · seed {run.seed}: {problem}")
                continue
            if record.figures is None:
                unread.append(f"{variant.name} · seed {run.seed}: its figures.json is gone")
            else:
                records[variant.name][run.seed] = record
    return Evidence(outcome, home, records, tuple(unread))


def leaks_of(evidence: Evidence, variant: VariantOutcome) -> list[LeakRecord]:
    """The largest leaks that the audit before the first seed wrote down, those of one length."""
    for run in variant.runs:
        try:
            seen = recorded_audit(Run(evidence.home / run.folder))
        except UserError:  # damaged: the sentence in the outcome says what it said
            continue
        rows = printable(seen or {}).get("leaks") or []
        try:
            here = [row for row in rows if row["where"] == rows[0]["where"]]
            found = [
                LeakRecord(int(r["query"]), int(r["key"]), float(r["influence"])) for r in here
            ]
        except (KeyError, TypeError, ValueError):
            continue
        if found:
            return found
    return []


def against_baseline(evidence: Evidence, baseline: ScoreRecord) -> str:
    """`both are behind it`: what the runs themselves found, paired on the same documents."""
    grouped: dict[str, list[str]] = {}
    for variant in evidence.valid:
        runs = evidence.records[variant.name].values()
        verdicts = Counter(
            compared.verdict.value
            for run in runs
            for compared in (run.figures.comparisons if run.figures else ())
            if (compared.part, compared.metric) == (baseline.part, baseline.metric)
            and compared.against == baseline.of
        )
        if verdicts:
            grouped.setdefault(_standing(verdicts), []).append(variant.name)
    everybody = len(evidence.variants)
    told = []
    for standing, names in grouped.items():
        if len(names) == everybody > 1:
            return f"{'both' if everybody == 2 else 'all'} are {standing}"
        told.append(f"{join_words(names)} {'is' if len(names) == 1 else 'are'} {standing}")
    return "; ".join(told)


def _standing(verdicts: Counter[str]) -> str:
    """`behind it`, or by seeds where they do not agree."""
    seeds = verdicts.total()
    if len(verdicts) == 1:
        return f"{next(iter(verdicts))} it"
    return ", ".join(f"{verdict} it with {n} of {seeds} seeds" for verdict, n in verdicts.items())


@dataclass(frozen=True)
class Differing:
    """A setting that is not the same in all resolved recipes."""

    key: str
    values: tuple[str, ...]
    "In the order of the variants, as in TOML."
    tuned: bool


def differing_settings(outcome: Outcome) -> list[Differing]:
    tables = [dict(_flat_recipe(variant)) for variant in outcome.variants]
    known = [table for table in tables if table]
    keys = dict.fromkeys(key for table in known for key in table)
    return [
        Differing(key, tuple(_said(table, key) for table in tables), key in outcome.tuned)
        for key in keys
        if key != "name" and len({_said(table, key) for table in known}) > 1
    ]


def _flat_recipe(variant: VariantOutcome) -> Iterator[tuple[str, Any]]:
    try:
        yield from flatten(tomllib.loads(variant.recipe)).items()
    except tomllib.TOMLDecodeError:  # edited or cut short since: it is shown as it is
        return


def _said(table: Mapping[str, Any], key: str) -> str:
    return said(table[key]) if key in table else ABSENT


def said(value: Any) -> str:
    """A setting's value as a person writes it: `0.001`, `"additive"`, `[1, 2]`."""
    return json.dumps(value, ensure_ascii=False, default=str)


def metrics_shown(outcome: Outcome) -> list[str]:
    """The deciding metric first; perplexity too, where something else decides."""
    decides = outcome.decides.partition(".")[2]
    measured = {key.partition(".")[2] for v in outcome.variants for key in v.figures}
    return [metric for metric in dict.fromkeys((decides, "perplexity")) if metric in measured]


def figure_keys(outcome: Outcome, metric: str) -> list[str]:
    """`dev.perplexity` and the like, the deciding part first and the training set last."""
    decides = outcome.decides.partition(".")[0]
    parts = dict.fromkeys((decides, "dev", "test", "train"))
    measured = {key for variant in outcome.variants for key in variant.figures}
    return [key for key in (f"{part}.{metric}" for part in parts) if key in measured]
