"""Collect the outcome of a study from its run folders.

A missing or damaged run is reported with its reason, and the rest is compared without it. A run
that diverged is a result: its variant is judged by how many did, and by no mean over the others.
Who is compared with whom: `verdicts/comparisons.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from regard.audits.findings import INVALID_VERDICTS
from regard.evaluation.health.overfitting import FitVerdict
from regard.runs.results import MODEL, ScoreRecord
from regard.studies.completed_runs import (
    CompletedRun,
    CompletedRuns,
    describe_collapse,
    describe_divergence,
    read_completed_run,
    seed_tables,
)
from regard.studies.contamination import leave_out_overlap
from regard.studies.engines.job import JobResult
from regard.studies.equality import machine_remarks, unequal_conditions
from regard.studies.outcome import (
    Outcome,
    RunOutcome,
    VariantOutcome,
)
from regard.studies.seed_spread import LEVEL, seed_spread
from regard.studies.study import LoadedStudy
from regard.studies.verdicts.comparisons import Comparisons, compare_variants, compared_scores
from regard.studies.verdicts.divergence import (
    compare_divergence,
    count_diverged,
    describe_divergences,
)
from regard.studies.verdicts.planned_looks import PlannedLooks


def collect_outcome(
    loaded: LoadedStudy,
    job_results: Sequence[JobResult],
    variants: list[VariantOutcome],
    *,
    home: Path,
    command: str,
    looks: PlannedLooks | None = None,
) -> Outcome:
    """Read every run of the study and compare the variants; fills in `variants`. `looks`: the study
    has the seeds of one of them, at which it is judged."""
    study = loaded.study
    by_name = {variant.name: variant for variant in variants}
    completed: dict[str, dict[int, CompletedRun]] = {name: {} for name in by_name}
    missing = []
    for result in job_results:
        job = result.job
        run, reason = read_completed_run(result)
        folder = str(job.folder.relative_to(home))
        diverged = describe_divergence(result, run)
        reason = reason or (f"it diverged: {diverged}" if diverged else "")
        by_name[job.variant].runs.append(RunOutcome(job.seed, folder, reason, diverged))
        if diverged:
            continue
        if run is None:
            missing.append(f"{job.title}: {reason}")
        else:
            completed[job.variant][job.seed] = run
    completed, contamination = leave_out_overlap(completed, study.decides.partition(".")[2])
    for name, variant in by_name.items():
        _summarize(variant, completed[name], level=looks.level if looks else LEVEL)
    reference = loaded.reference.name
    divergences = compare_divergence(
        [(by_name[one.name], by_name[one.against]) for one in loaded.variants]
    )
    return Outcome(
        name=study.name,
        question=study.question,
        decides=study.decides,
        reference=reference,
        seeds=study.all_seeds,
        budget=study.budget,
        tuned=tuple(study.tune),
        variants=variants,
        verdicts=[
            verdict_outcome
            for score_key in compared_scores(study.decides)
            for verdict_outcome in compare_variants(
                Comparisons(loaded, by_name, completed, contamination, looks),
                score_key,
                divergences,
            )
        ],
        baselines=_baselines(completed[reference] or next(filter(None, completed.values()), {})),
        unequal=unequal_conditions(loaded, by_name, completed),
        invalid=[_why_invalid(variant) for variant in variants if not variant.is_valid],
        missing=missing,
        remarks=[*_remarks(loaded, by_name), *machine_remarks(completed)],
        command=command,
        collapsed=[why_not_ranked(variant) for variant in variants if variant.collapsed],
        diverged=[describe_divergences(variant) for variant in variants if variant.diverged],
        divergences=divergences,
        contamination=contamination,
        data_flaws=_data_flaws(completed),
    )


def _data_flaws(completed: CompletedRuns) -> list[str]:
    """Each flaw once; most are of the data that all runs share."""
    runs = [run for variant in completed.values() for run in variant.values()]
    return list(dict.fromkeys(flaw for run in runs for flaw in run.results.data_flaws))


def _summarize(variant: VariantOutcome, runs: Mapping[int, CompletedRun], *, level: float) -> None:
    """Fill in `variant` from its runs, by seed."""
    count = count_diverged(variant)
    variant.diverged = f"diverged in {count}" if count.diverged else ""
    if not runs:
        return
    results = [run.results for run in runs.values()]
    costs, first = [result.cost for result in results], results[0]
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
    audits = [result.audit for result in results if result.audit is not None]
    # One leaking run makes the variant invalid: its audit is the one reported.
    variant.audit = next((audit for audit in audits if not audit.is_valid), first.audit)
    variant.collapsed = describe_collapse(runs)
    variant.health = first.health
    variant.samples = first.samples
    variant.recipe = next(iter(runs.values())).record.recipe
    metric = next(iter(runs.values())).metric
    statistics = next(iter(runs.values())).statistics
    scores = {
        (row.split, row.metric)
        for row in first.estimates
        if row.of == MODEL and statistics[row.split].shape[-1]
    }
    for split, name in sorted(scores):
        score_key = f"{split}.{name}"
        variant.estimates[score_key] = seed_spread(
            seed_tables(variant.name, runs, score_key),
            metric.score_function(name),
            bounds=metric.bounds(name),
            no_interval=metric.why_no_interval(name, statistics[split]),
            level=level,
        )


def _baselines(runs: Mapping[int, CompletedRun]) -> list[ScoreRecord]:
    first = next(iter(runs.values()), None)
    if first is None:
        return []
    return [row for row in first.results.estimates if row.of != MODEL]


def _why_invalid(variant: VariantOutcome) -> str:
    audit = variant.audit
    assert audit is not None
    broken = "is broken: " + "; ".join(audit.broken)
    reason = audit.sentence if audit.verdict in INVALID_VERDICTS else broken
    perplexity = next(
        (
            variant.estimates[key].value
            for key in ("dev.perplexity", "test.perplexity")
            if key in variant.estimates
        ),
        None,
    )
    note = f"; its perplexity {perplexity:,.0f} means nothing" if perplexity is not None else ""
    return f"{variant.name} {reason}{note}"


def why_not_ranked(variant: VariantOutcome) -> str:
    return f"{variant.name} {variant.collapsed}, and it is not ranked"


def _remarks(loaded: LoadedStudy, variants: Mapping[str, VariantOutcome]) -> list[str]:
    study, remarks = loaded.study, []
    if study.tune:
        keys = ", ".join(study.tune)
        remarks.append(f"{keys} was chosen for each variant on dev with seed {study.all_seeds[0]}")
        if study.decides.startswith("dev."):
            remarks.append("dev was used for tuning and decides: compare the same score on test")
    if len(study.all_seeds) == 1:
        remarks.append("one seed: the variation between seeds is unknown")
    for variant in variants.values():
        gap = variant.health.train_dev_gap if variant.health else None
        if gap is not None and gap.fit == FitVerdict.OVERFITTING:
            first = next(run.seed for run in variant.runs if not run.reason)
            remarks.append(f"{variant.name}, seed {first}: {gap.sentence}")
    return remarks


def _mean(values: Sequence[float | None]) -> float:
    measured = [value for value in values if value is not None]
    return fmean(measured) if measured else math.nan
