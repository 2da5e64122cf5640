"""What should be equal between the variants of a study and is not, a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean

from regard.evaluation.formatting import join_words
from regard.runs.archive.record import CostRecord
from regard.studies.completed_runs import CompletedRun, CompletedRuns
from regard.studies.outcome import VariantOutcome
from regard.studies.study import Budget, LoadedStudy, Study


def unequal(
    loaded: LoadedStudy, variants: Mapping[str, VariantOutcome], usable: CompletedRuns
) -> list[str]:
    """Every variant against the one it is compared with, on the seeds that both have."""
    found = []
    for name, other in ((variant.name, variant.against) for variant in loaded.variants):
        if name == other or not usable[name] or not usable[other]:
            continue
        said = [
            *_sizes(variants[name], variants[other], loaded.study),
            *_budget(usable[name], usable[other], study=loaded.study, other=other),
            *_reading(usable[name], usable[other]),
        ]
        found += [f"{name}: {what}" for what in said]
    return found


def _sizes(one: VariantOutcome, other: VariantOutcome, study: Study) -> list[str]:
    found = []
    apart = _apart(one.parameters, other.parameters)
    if abs(apart) > study.tolerance:
        found.append(
            f"{one.parameters:,} parameters where {other.name} has {other.parameters:,} "
            f"({apart:+.1%}; tolerance {study.tolerance:.0%})"
        )
    mine, theirs = (side.operations * side.steps for side in (one, other))
    apart = _apart(mine, theirs)
    if study.budget == "flops" and abs(apart) > study.tolerance:
        found.append(f"{mine:.3g} operations where {other.name} had {theirs:.3g} ({apart:+.1%})")
    if len(one.trials) != len(other.trials):
        found.append(f"{len(one.trials)} tuning trials where {other.name} had {len(other.trials)}")
    return found


SHARED: dict[Budget, dict[str, Callable[[CostRecord], float]]] = {
    "steps": {"steps": lambda cost: cost.steps or 0, "tokens": lambda cost: cost.tokens or 0},
    "tokens": {"tokens": lambda cost: cost.tokens or 0},
    "seconds": {"seconds of training": lambda cost: cost.seconds or 0.0},
    "flops": {},  # of a variant, not of a run: among the sizes
}
"What a budget makes equal, of one run."


def _budget(
    one: Mapping[int, CompletedRun], theirs: Mapping[int, CompletedRun], *, study: Study, other: str
) -> list[str]:
    """Means over the seeds that both have: another seed may read a token more or less."""
    costs = [(one[seed].figures.cost, theirs[seed].figures.cost) for seed in one if seed in theirs]
    if not costs:
        return []
    # Equal steps are exact; a share of another budget is rounded to whole updates, or timed.
    tolerance = 0.0 if study.budget == "steps" else study.tolerance
    found = []
    for what, taken in SHARED[study.budget].items():
        mine, its = (fmean(map(taken, side)) for side in zip(*costs, strict=True))
        apart = _apart(mine, its)
        if abs(apart) > tolerance:
            found.append(f"{mine:,.9g} {what} where {other} had {its:,.9g} ({apart:+.1%})")
    return found


def _apart(one: float, other: float) -> float:
    """By how much one exceeds the other, as a share of it."""
    return one / other - 1 if other else float(one != other)


FACTS: dict[str, Callable[[CompletedRun], object]] = {
    "another tokenizer, so figures per token do not compare": lambda run: (
        run.figures.tokenizer.fingerprint if run.figures.tokenizer else None
    ),
    "other tokens, or the same in another order": lambda run: run.figures.order,
    "other training documents": lambda run: run.figures.items.get("train", {}).get("documents"),
    "other dev documents": lambda run: run.figures.items.get("dev", {}).get("documents"),
    "other test documents": lambda run: run.figures.items.get("test", {}).get("documents"),
    "another device, precision or number of threads": lambda run: [
        run.figures.environment.get(key) for key in ("device", "precision", "threads")
    ],
}
"What is wrong when the two differ, and how to see it."


def _reading(one: Mapping[int, CompletedRun], other: Mapping[int, CompletedRun]) -> list[str]:
    shared = [seed for seed in one if seed in other]
    found = []
    for what, fact in FACTS.items():
        seeds = [seed for seed in shared if fact(one[seed]) != fact(other[seed])]
        if seeds:
            found.append(f"{what} (seed {', '.join(map(str, seeds))})")
    lonely = sorted(set(one) ^ set(other))
    if lonely:
        are = "seed {} is" if len(lonely) == 1 else "seeds {} are"
        found.append(f"{are.format(join_words(map(str, lonely)))} on one side only and left out")
    return found
