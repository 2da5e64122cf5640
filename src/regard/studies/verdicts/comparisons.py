"""The comparisons of a study: each variant with its reference on one score.

Variants are compared on the seeds they share, paired by item. A variant that leaks is compared with
nothing, and neither is one that predicts one class for every row: its scores are correct, but they
only measure how frequent that class is. At a planned look a comparison that lacks one of its runs
is a preview.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from regard.core.errors import UserError
from regard.evaluation.formatting import number
from regard.evaluation.metrics.metric import is_lower_better
from regard.evaluation.statistics.baseline_verdict import MIN_ITEMS
from regard.evaluation.statistics.holm import holm, holm_at_looks
from regard.evaluation.statistics.significance import MethodDifference, method_difference
from regard.evaluation.statistics.verdict import verdict
from regard.studies.completed_runs import CompletedRuns, seed_tables
from regard.studies.outcome import (
    DivergenceOutcome,
    StudyContamination,
    VariantOutcome,
    VerdictOutcome,
)
from regard.studies.study import LoadedStudy
from regard.studies.verdicts.planned_looks import PREVIEW, PlannedLooks


def compared_scores(decides: str) -> list[str]:
    """The deciding score key first, then the same metric on the other held-out split."""
    split, _, metric = decides.partition(".")
    return [decides, f"{'test' if split == 'dev' else 'dev'}.{metric}"]


@dataclass(frozen=True)
class Comparisons:
    """Variants and their references, with the runs that are used."""

    loaded: LoadedStudy
    variants: Mapping[str, VariantOutcome]
    completed: CompletedRuns
    contamination: Sequence[StudyContamination]
    looks: PlannedLooks | None

    def difference(self, name: str, reference: str, score_key: str) -> MethodDifference:
        """On the seeds that both have; at a planned look, on those of the look."""
        look = self.looks.look_of(name, reference) if self.looks else None
        seeds = list(self.completed[name])
        if look is not None:
            planned = look.plan.seeds[look.index]
            seeds = [seed for seed in self.loaded.study.all_seeds[:planned] if seed in seeds]
        shared = [seed for seed in seeds if seed in self.completed[reference]]
        ours, theirs = (
            seed_tables(side, self.completed[side], score_key).select(shared)
            for side in (name, reference)
        )
        metric = next(iter(self.completed[name].values())).metric
        score_function = metric.score_function(score_key.partition(".")[2])
        return replace(method_difference(ours, theirs, score_function), look=look)

    def doubt(self, name: str, score_key: str) -> str:
        """What the items of a split say against a verdict on this score; empty if nothing."""
        split, _, score_name = score_key.partition(".")
        run = next(iter(self.completed[name].values()))
        return run.metric.doubt(score_name, run.statistics[split])


def compare_variants(
    comparisons: Comparisons, score_key: str, divergences: Sequence[DivergenceOutcome]
) -> list[VerdictOutcome]:
    """Each variant against its reference, p-values corrected together by Holm's method."""
    differences: list[MethodDifference] = []
    not_compared: list[VerdictOutcome] = []
    variants = comparisons.variants
    pairs = [(variant.name, variant.against) for variant in comparisons.loaded.variants]
    for name, reference in pairs:
        if name == reference:
            continue
        reason = _why_not_compared(
            score_key,
            variants[name],
            variants[reference],
            comparisons.completed,
            comparisons.contamination,
        )
        if not reason:
            try:
                differences.append(comparisons.difference(name, reference, score_key))
                continue
            except UserError as problem:
                reason = str(problem)
        counted = [one.sentence for one in divergences if one.variant == name]
        notes = (reason, *counted)
        not_compared.append(VerdictOutcome(score_key, name, reference, "not compared", notes, ""))
    lower_is_better = is_lower_better(score_key.partition(".")[2])
    previews: list[MethodDifference] = []
    if comparisons.looks is None:
        judged = holm(differences)
    else:
        previews = [one for one in differences if not _has_all_seeds(one)]
        complete = [one for one in differences if _has_all_seeds(one)]
        judged = holm_at_looks(complete, comparisons=comparisons.looks.comparisons)
    outcomes = [verdict_outcome(score_key, one, lower_is_better=lower_is_better) for one in judged]
    doubts = {one.a: comparisons.doubt(one.a, score_key) for one in judged}
    return [
        *(
            replace(one, notes=(*one.notes, doubt)) if (doubt := doubts[one.variant]) else one
            for one in outcomes
        ),
        *(preview_outcome(score_key, one) for one in previews),
        *not_compared,
    ]


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
        level=difference.level,
        look=0 if difference.look is None else difference.look.index + 1,
        chance=None if judged.better else difference.chance_by_plan(),
    )


def _has_all_seeds(difference: MethodDifference) -> bool:
    """Whether every run of its look was used."""
    look = difference.look
    return look is not None and difference.seeds == look.plan.seeds[look.index]


def preview_outcome(score_key: str, difference: MethodDifference) -> VerdictOutcome:
    """What can be seen before all runs of a look have finished: the value, and no verdict."""
    assert difference.look is not None
    needed = difference.look.plan.seeds[difference.look.index]
    notes = (
        f"{difference.a} − {difference.b}: {number(difference.value, sign='+')} on "
        f"{difference.seeds} of the {needed} seeds of look {difference.look.index + 1}",
    )
    return VerdictOutcome(
        score_key,
        difference.a,
        difference.b,
        PREVIEW,
        notes,
        "",
        value=difference.value,
        per_seed=difference.per_seed,
        n=difference.n,
        groups=difference.groups,
        seeds=difference.seeds,
        look=difference.look.index + 1,
        is_preview=True,
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


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
