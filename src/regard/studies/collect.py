"""Collect the outcome of a study from its run folders.

A missing or damaged run is reported with its reason, and the rest is compared without it. A run
that diverged is a result: its variant is judged by how many did, and by no mean over the others.
Variants are compared on the seeds they share, paired by item. A variant that leaks is compared with
nothing, and neither is one that predicts one class for every row: its scores are correct, but they
only measure how frequent that class is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from regard.audits.findings import INVALID_VERDICTS
from regard.core.errors import UserError
from regard.evaluation.health.overfitting import FitVerdict
from regard.evaluation.metrics.metric import is_lower_better
from regard.evaluation.statistics.baseline_verdict import MIN_ITEMS
from regard.evaluation.statistics.significance import MethodDifference, holm, method_difference
from regard.evaluation.statistics.verdict import verdict
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
from regard.studies.divergence import (
    compare_divergence,
    count_diverged,
    describe_divergences,
)
from regard.studies.engines.job import JobResult
from regard.studies.equality import unequal_conditions
from regard.studies.outcome import (
    DivergenceOutcome,
    Outcome,
    RunOutcome,
    StudyContamination,
    VariantOutcome,
    VerdictOutcome,
)
from regard.studies.seed_spread import seed_spread
from regard.studies.study import LoadedStudy


def collect_outcome(
    loaded: LoadedStudy,
    job_results: Sequence[JobResult],
    variants: list[VariantOutcome],
    *,
    home: Path,
    command: str,
) -> Outcome:
    """Read every run of the study and compare the variants; fills in `variants`."""
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
        _summarize(variant, completed[name])
    reference = loaded.reference.name
    divergences = compare_divergence(
        [(by_name[one.name], by_name[one.against]) for one in loaded.variants]
    )
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
            verdict_outcome
            for score_key in _compared_scores(study.decides)
            for verdict_outcome in _verdicts(
                score_key, loaded, by_name, completed, divergences, contamination
            )
        ],
        baselines=_baselines(completed[reference] or next(filter(None, completed.values()), {})),
        unequal=unequal_conditions(loaded, by_name, completed),
        invalid=[_why_invalid(variant) for variant in variants if not variant.is_valid],
        missing=missing,
        remarks=_remarks(loaded, by_name),
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


def _summarize(variant: VariantOutcome, runs: Mapping[int, CompletedRun]) -> None:
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
        )


def _verdicts(
    score_key: str,
    loaded: LoadedStudy,
    variants: Mapping[str, VariantOutcome],
    completed: CompletedRuns,
    divergences: Sequence[DivergenceOutcome],
    contamination: Sequence[StudyContamination],
) -> list[VerdictOutcome]:
    """Each variant against its reference, p-values corrected together by Holm's method."""
    differences: list[MethodDifference] = []
    not_compared: list[VerdictOutcome] = []
    score_name = score_key.partition(".")[2]
    for name, reference in ((variant.name, variant.against) for variant in loaded.variants):
        if name == reference:
            continue
        reason = _why_not_compared(
            score_key, variants[name], variants[reference], completed, contamination
        )
        if not reason:
            shared = [seed for seed in completed[name] if seed in completed[reference]]
            try:
                ours, theirs = (
                    seed_tables(side, completed[side], score_key).select(shared)
                    for side in (name, reference)
                )
                metric = next(iter(completed[name].values())).metric
                difference = method_difference(ours, theirs, metric.score_function(score_name))
                differences.append(difference)
                continue
            except UserError as problem:
                reason = str(problem)
        counted = [one.sentence for one in divergences if one.variant == name]
        notes = (reason, *counted)
        not_compared.append(VerdictOutcome(score_key, name, reference, "not compared", notes, ""))
    lower_is_better = is_lower_better(score_name)
    return [
        verdict_outcome(score_key, difference, lower_is_better=lower_is_better)
        for difference in holm(differences)
    ] + not_compared


def verdict_outcome(
    score_key: str, difference: MethodDifference, *, lower_is_better: bool
) -> VerdictOutcome:
    judged = verdict(difference, lower_is_better=lower_is_better)
    return VerdictOutcome(
        score_key,
        difference.a,
        difference.b,
        judged.sentence,
        judged.notes,
        judged.better,
        value=difference.value,
        low=_finite(difference.low),
        high=_finite(difference.high),
        per_seed=difference.per_seed,
        n=difference.n,
        groups=difference.groups,
        seeds=difference.seeds,
        scope=judged.scope,
    )


def _why_not_compared(
    score_key: str,
    a: VariantOutcome,
    b: VariantOutcome,
    completed: CompletedRuns,
    contamination: Sequence[StudyContamination],
) -> str:
    split = score_key.partition(".")[0]
    for one in contamination:
        if one.overlap.split == split and one.overlap.clean < MIN_ITEMS:
            return f"{one.overlap.clean} clean {split} {one.overlap.unit} are too few for a verdict"
    for variant in (a, b):
        if not variant.is_valid:
            return f"{variant.name} could see what it had to predict"
        if variant.collapsed:
            return f"{variant.name} {variant.collapsed.partition(':')[0]}"
        if variant.diverged:
            return f"{variant.name} {variant.diverged}, and no mean over the others is judged"
        if not completed[variant.name]:
            return f"{variant.name} has no finished run"
        if score_key not in variant.estimates:
            return f"{variant.name} has no {score_key}"
    if not set(completed[a.name]) & set(completed[b.name]):
        return f"{a.name} and {b.name} have no seed in common"
    return ""


def _compared_scores(decides: str) -> list[str]:
    """The deciding score key first, then the same metric on the other held-out split."""
    split, _, metric = decides.partition(".")
    return [decides, f"{'test' if split == 'dev' else 'dev'}.{metric}"]


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
        remarks.append(f"{keys} was chosen for each variant on dev with seed {study.seeds[0]}")
        if study.decides.startswith("dev."):
            remarks.append("dev was used for tuning and decides: compare the same score on test")
    if len(study.seeds) == 1:
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


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
