"""Divergence as a result of a study: counted for each variant, and compared by counts."""

from __future__ import annotations

from collections.abc import Sequence

from regard.evaluation.formatting import p_value
from regard.evaluation.statistics.divergence import DivergenceCount, fisher_exact
from regard.evaluation.statistics.holm import holm_adjusted
from regard.studies.outcome import DivergenceOutcome, VariantOutcome

ALPHA = 0.05


def count_diverged(variant: VariantOutcome) -> DivergenceCount:
    """Of the runs whose training ended: failed and missing ones say nothing."""
    diverged = sum(bool(run.diverged) for run in variant.runs)
    finished = sum(not run.reason for run in variant.runs)
    return DivergenceCount(diverged, diverged + finished)


def describe_divergences(variant: VariantOutcome) -> str:
    """`additive diverged in 2 of 10 seeds (seed 3: the loss is not finite at step 12 …; …)`"""
    how = "; ".join(f"seed {run.seed}: {run.diverged}" for run in variant.runs if run.diverged)
    return f"{variant.name} {variant.diverged} ({how})"


def compare_divergence(
    pairs: Sequence[tuple[VariantOutcome, VariantOutcome]],
) -> list[DivergenceOutcome]:
    """Each variant against its reference, where either diverged; p adjusted by Holm's method.

    Fisher's test is conditional on the number that diverged, so pairs without one are no tests."""
    counts = [
        (variant.name, reference.name, count_diverged(variant), count_diverged(reference))
        for variant, reference in pairs
        if variant is not reference
    ]
    tested = [one for one in counts if one[2].diverged or one[3].diverged]
    adjusted = holm_adjusted([fisher_exact(ours, theirs) for _, _, ours, theirs in tested])
    return [
        _outcome(*one, p=float(p), tests=len(tested))
        for one, p in zip(tested, adjusted, strict=True)
    ]


def _outcome(
    variant: str,
    reference: str,
    ours: DivergenceCount,
    theirs: DivergenceCount,
    *,
    p: float,
    tests: int,
) -> DivergenceOutcome:
    corrected = f", one of {tests} corrected by Holm" if tests > 1 else ""
    test = f"(p = {p_value(p)}, Fisher's exact test{corrected})"
    if p >= ALPHA:
        better = ""
        sentence = (
            f"how often they diverge is not distinguishable: {variant} in {ours}, {reference} in "
            f"{theirs} {test}"
        )
    else:
        is_ours_better = ours.diverged * theirs.seeds < theirs.diverged * ours.seeds
        better, worse = (variant, reference) if is_ours_better else (reference, variant)
        fewer, more = (ours, theirs) if is_ours_better else (theirs, ours)
        sentence = f"{worse} diverges more often than {better}: {more} against {fewer} {test}"
    return DivergenceOutcome(
        variant=variant,
        reference=reference,
        diverged=ours,
        reference_diverged=theirs,
        p=p,
        sentence=sentence,
        better=better,
    )
