"""From a study's run folders to what it found.

Every run speaks for itself: one that is missing or damaged is named with its reason, and the rest
is judged without it. A difference between variants rests on the seeds that both have, on the same
items; a variant that cheats is compared with nothing, and neither is one that answers one class for
every row: its figures are true, but they are the share of that class and tell nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from regard.core.errors import UserError
from regard.evaluation.health.overfitting import FitVerdict
from regard.evaluation.metrics.metric import LOWER_IS_BETTER
from regard.evaluation.statistics.significance import MethodDifference, holm, method_difference
from regard.evaluation.statistics.verdict import verdict
from regard.runs.archive.record import MODEL
from regard.studies.completed_runs import (
    CompletedRun,
    CompletedRuns,
    collapse_of,
    measured_of,
    read_completed_run,
)
from regard.studies.engines.local import JobResult
from regard.studies.equality import unequal
from regard.studies.outcome import Outcome, RunOutcome, VariantOutcome, VerdictOutcome
from regard.studies.seed_spread import spread_of
from regard.studies.study import LoadedStudy


def collect_outcome(
    loaded: LoadedStudy,
    ended: Sequence[JobResult],
    variants: list[VariantOutcome],
    *,
    home: Path,
    command: str,
) -> Outcome:
    """Read every run of the study and judge what they show; `variants` are filled in."""
    study = loaded.study
    by_name = {variant.name: variant for variant in variants}
    usable: dict[str, dict[int, CompletedRun]] = {name: {} for name in by_name}
    missing = []
    for one in ended:
        found, reason = read_completed_run(one)
        shown = str(one.job.folder.relative_to(home))
        by_name[one.job.variant].runs.append(RunOutcome(one.job.seed, shown, reason))
        if found is None:
            missing.append(f"{one.job.title}: {reason}")
        else:
            usable[one.job.variant][one.job.seed] = found
    for name, variant in by_name.items():
        _fill(variant, usable[name])
    reference = loaded.reference.name
    return Outcome(
        name=study.name,
        question=study.question,
        decides=study.decides,
        reference=reference,
        seeds=study.seeds,
        budget=study.budget,
        tuned=tuple(study.tune),
        variants=variants,
        verdicts=[
            told
            for figure in _judged(study.decides)
            for told in _verdicts(figure, loaded, by_name, usable)
        ],
        baselines=_baselines(usable[reference] or next(filter(None, usable.values()), {})),
        unequal=unequal(loaded, by_name, usable),
        invalid=[_why_invalid(variant) for variant in variants if not variant.is_valid],
        missing=missing,
        remarks=_remarks(loaded, by_name),
        command=command,
        collapsed=[_why_not_ranked(variant) for variant in variants if variant.collapsed],
    )


def _fill(variant: VariantOutcome, runs: Mapping[int, CompletedRun]) -> None:
    if not runs:
        return
    figures = [run.figures for run in runs.values()]
    costs, first = [one.cost for one in figures], figures[0]
    variant.parameters, variant.steps = costs[0].parameters or 0, costs[0].steps or 0
    if first.ledger is not None and first.ledger.total < first.ledger.of:
        variant.trained = first.ledger.total
    variant.tokens = costs[0].tokens or 0
    variant.seconds = _mean([cost.seconds for cost in costs])
    variant.tokens_per_second = _mean([cost.tokens_per_second for cost in costs])
    peaks = [cost.peak_memory_bytes for cost in costs if cost.peak_memory_bytes is not None]
    variant.peak_memory_bytes = max(peaks, default=math.nan)
    variant.final_loss = _mean(
        [run.record.events.steps[-1].loss for run in runs.values() if run.record.events.steps]
    )
    audits = [one.audit for one in figures if one.audit is not None]
    # One training that could see the answers is enough: the worst of its audits speaks for it.
    worst = next((one for one in audits if not one.is_valid), None)
    told = worst or first.audit
    variant.audit = told.model_dump() if told is not None else None
    variant.collapsed = collapse_of(runs)
    variant.health = first.health.model_dump() if first.health else None
    variant.samples = [sample.model_dump() for sample in first.samples]
    variant.recipe = next(iter(runs.values())).record.recipe
    measure = next(iter(runs.values())).measure
    shown = {(f.part, f.metric) for f in first.figures if f.of == MODEL}
    for part, metric in sorted(shown):
        key = f"{part}.{metric}"
        measured = measured_of(variant.name, runs, key)
        variant.figures[key] = spread_of(
            measured, measure.score_function(metric), ends=measure.bounds(metric)
        )


def _verdicts(
    figure: str, loaded: LoadedStudy, variants: Mapping[str, VariantOutcome], usable: CompletedRuns
) -> list[VerdictOutcome]:
    """Each variant against the one it is compared with, corrected together by Holm."""
    found: list[MethodDifference] = []
    silent: list[VerdictOutcome] = []
    metric = figure.partition(".")[2]
    for name, reference in ((variant.name, variant.against) for variant in loaded.variants):
        if name == reference:
            continue
        why = _why_not_compared(figure, variants[name], variants[reference], usable)
        if why:
            silent.append(VerdictOutcome(figure, name, reference, "not compared", (why,), ""))
            continue
        shared = [seed for seed in usable[name] if seed in usable[reference]]
        try:
            ours, theirs = (
                measured_of(side, usable[side], figure).select(shared) for side in (name, reference)
            )
            measure = next(iter(usable[name].values())).measure
            found.append(method_difference(ours, theirs, measure.score_function(metric)))
        except UserError as problem:
            told = VerdictOutcome(figure, name, reference, "not compared", (str(problem),), "")
            silent.append(told)
    return [_told(figure, difference) for difference in holm(found)] + silent


def _told(figure: str, difference: MethodDifference) -> VerdictOutcome:
    said = verdict(difference, lower_is_better=figure.partition(".")[2] in LOWER_IS_BETTER)
    return VerdictOutcome(
        figure,
        difference.a,
        difference.b,
        said.words,
        said.notes,
        said.better,
        value=difference.value,
        low=_finite(difference.low),
        high=_finite(difference.high),
        per_seed=difference.per_seed,
        n=difference.n,
        seeds=difference.seeds,
        speaks_of=said.speaks_of,
    )


def _why_not_compared(
    figure: str, one: VariantOutcome, other: VariantOutcome, usable: CompletedRuns
) -> str:
    for variant in (one, other):
        if not variant.is_valid:
            return f"{variant.name} could see what it was asked to predict"
        if variant.collapsed:
            return f"{variant.name} answers one class for every row"
        if not usable[variant.name]:
            return f"{variant.name} has no finished run"
        if figure not in variant.figures:
            return f"{variant.name} has no figure {figure}"
    if not set(usable[one.name]) & set(usable[other.name]):
        return f"{one.name} and {other.name} have no seed in common"
    return ""


def _judged(decides: str) -> list[str]:
    """The deciding figure first, then the same on the other part."""
    part, _, metric = decides.partition(".")
    return [decides, f"{'test' if part == 'dev' else 'dev'}.{metric}"]


def _baselines(runs: Mapping[int, CompletedRun]) -> list[Mapping[str, Any]]:
    first = next(iter(runs.values()), None)
    if first is None:
        return []
    return [figure.model_dump() for figure in first.figures.figures if figure.of != MODEL]


def _why_invalid(variant: VariantOutcome) -> str:
    seen = variant.audit or {}
    figure = next(
        (key for key in ("dev.perplexity", "test.perplexity") if key in variant.figures), ""
    )
    means = f"; its perplexity {variant.figures[figure].value:,.0f} means nothing" if figure else ""
    said = (
        seen["sentence"] if seen["verdict"] == "leak" else "is broken: " + "; ".join(seen["broken"])
    )
    return f"{variant.name} {said}{means}"


def _why_not_ranked(variant: VariantOutcome) -> str:
    return (
        f"{variant.name} {variant.collapsed}; its accuracy is the share of that class, and it is "
        "not ranked"
    )


def _remarks(loaded: LoadedStudy, variants: Mapping[str, VariantOutcome]) -> list[str]:
    study, remarks = loaded.study, []
    if study.tune:
        keys = ", ".join(study.tune)
        remarks.append(f"{keys} was chosen for each variant on dev with seed {study.seeds[0]}")
        if study.decides.startswith("dev."):
            remarks.append("dev chose it and dev decides: the same figure on test is beside it")
    if len(study.seeds) == 1:
        remarks.append("one seed: what another would give is not known")
    for variant in variants.values():
        gap = (variant.health or {}).get("train_and_dev")
        if gap is not None and gap["fit"] == FitVerdict.OVERFITTING:
            first = next(run.seed for run in variant.runs if not run.reason)
            remarks.append(f"{variant.name}, seed {first}: {gap['sentence']}")
    return remarks


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return fmean(known) if known else math.nan


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
