"""Conditions that should be equal between the variants of a study and are not, a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from regard.evaluation.formatting import join_words
from regard.runs.results import CostRecord
from regard.studies.completed_runs import CompletedRun, CompletedRuns
from regard.studies.outcome import VariantOutcome
from regard.studies.study import Budget, LoadedStudy, Study

MAX_TITLES = 4
"Named each; of more the number is said."


def unequal_conditions(
    loaded: LoadedStudy, variants: Mapping[str, VariantOutcome], completed: CompletedRuns
) -> list[str]:
    """Compare every variant with its reference, on the seeds they share."""
    found = []
    for name, reference in ((variant.name, variant.against) for variant in loaded.variants):
        if name == reference or not completed[name] or not completed[reference]:
            continue
        runs, reference_runs = completed[name], completed[reference]
        differences = [
            *_unequal_sizes(variants[name], variants[reference], loaded.study),
            *_unequal_budgets(runs, reference_runs, study=loaded.study, reference=reference),
            *_unequal_data(runs, reference_runs),
        ]
        found += [f"{name}: {difference}" for difference in differences]
    return found


def _unequal_sizes(variant: VariantOutcome, reference: VariantOutcome, study: Study) -> list[str]:
    found = []
    excess = _relative_excess(variant.parameters, reference.parameters)
    if abs(excess) > study.tolerance:
        found.append(
            f"{variant.parameters:,} parameters where {reference.name} has "
            f"{reference.parameters:,} ({excess:+.1%}; tolerance {study.tolerance:.0%})"
        )
    ours, theirs = (side.operations * side.steps for side in (variant, reference))
    excess = _relative_excess(ours, theirs)
    if study.budget == "flops" and abs(excess) > study.tolerance:
        found.append(f"{ours:.3g} FLOPs where {reference.name} had {theirs:.3g} ({excess:+.1%})")
    if len(variant.trials) != len(reference.trials):
        found.append(
            f"{len(variant.trials)} tuning trials where {reference.name} had "
            f"{len(reference.trials)}"
        )
    return found


BUDGET_COSTS: dict[Budget, dict[str, Callable[[CostRecord], float]]] = {
    "steps": {"steps": lambda cost: cost.steps or 0, "tokens": lambda cost: cost.tokens or 0},
    "tokens": {"tokens": lambda cost: cost.tokens or 0},
    "seconds": {"seconds of training": lambda cost: cost.seconds or 0.0},
    "flops": {},  # a property of the variant, not of a run: see _unequal_sizes
}
"What a budget equalises, per run."


def _unequal_budgets(
    runs: Mapping[int, CompletedRun],
    reference_runs: Mapping[int, CompletedRun],
    *,
    study: Study,
    reference: str,
) -> list[str]:
    """Means over the shared seeds: the token count may differ slightly between seeds."""
    costs = [
        (runs[seed].results.cost, reference_runs[seed].results.cost)
        for seed in runs
        if seed in reference_runs
    ]
    if not costs:
        return []
    # Equal steps are exact; other budgets are rounded to whole updates, or timed.
    tolerance = 0.0 if study.budget == "steps" else study.tolerance
    found = []
    for unit, cost_of in BUDGET_COSTS[study.budget].items():
        ours, theirs = (fmean(map(cost_of, side)) for side in zip(*costs, strict=True))
        excess = _relative_excess(ours, theirs)
        if abs(excess) > tolerance:
            found.append(f"{ours:,.9g} {unit} where {reference} had {theirs:,.9g} ({excess:+.1%})")
    return found


def _relative_excess(value: float, reference: float) -> float:
    return value / reference - 1 if reference else float(value != reference)


DATA_FACTS: dict[str, Callable[[CompletedRun], object]] = {
    "another tokenizer, so scores per token do not compare": lambda run: (
        run.results.tokenizer.fingerprint if run.results.tokenizer else None
    ),
    "other tokens, or the same in another order": lambda run: run.results.order,
    "other training documents": lambda run: run.results.items.get("train", {}).get("documents"),
    "other dev documents": lambda run: run.results.items.get("dev", {}).get("documents"),
    "other test documents": lambda run: run.results.items.get("test", {}).get("documents"),
    "another device, precision or number of threads": lambda run: [
        run.results.environment.get(key) for key in ("device", "precision", "threads")
    ],
}
"Facts that must agree between two runs, by what is wrong if they do not."


BITS_OF = {"cpu": "kinds of CPU", "products": "kernels", "torch": "versions of torch"}
"Facts of a run's machine on which its last bits depend."


def machine_remarks(completed: CompletedRuns) -> list[str]:
    """Where runs were trained on machines whose bits may differ; they are compared nevertheless."""
    runs = [
        (run.results.environment, f"{name} seed {seed}")
        for name, by_seed in completed.items()
        for seed, run in by_seed.items()
    ]
    remarks = []
    for fact, what in BITS_OF.items():
        where: dict[str, list[str]] = {}
        for environment, title in runs:
            if fact in environment:  # former versions noted no CPU
                where.setdefault(str(environment[fact]), []).append(title)
        if len(where) > 1:
            kinds = "; ".join(f"{kind}: {_shortened(titles)}" for kind, titles in where.items())
            remarks.append(
                f"the runs are of {len(where)} {what}, between which bits may differ ({kinds})"
            )
    return remarks


def _shortened(titles: Sequence[str]) -> str:
    if len(titles) <= MAX_TITLES:
        return join_words(titles)
    return f"{len(titles)} runs, the first {titles[0]}"


def _unequal_data(
    runs: Mapping[int, CompletedRun], reference_runs: Mapping[int, CompletedRun]
) -> list[str]:
    shared = [seed for seed in runs if seed in reference_runs]
    found = []
    for complaint, fact in DATA_FACTS.items():
        seeds = [seed for seed in shared if fact(runs[seed]) != fact(reference_runs[seed])]
        if seeds:
            found.append(f"{complaint} (seed {', '.join(map(str, seeds))})")
    unshared = sorted(set(runs) ^ set(reference_runs))
    if unshared:
        are = "seed {} is" if len(unshared) == 1 else "seeds {} are"
        found.append(f"{are.format(join_words(map(str, unshared)))} on one side only and left out")
    return found
