"""Equal budgets for variants: steps, tokens, FLOPs or seconds; optionally equal parameter counts.

The reference's recipe sets the budget. The steps of the other variants follow from the cost of one
of their updates, measured before training and written into their recipes, so that a resumed study
uses the same ones.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from regard.core.errors import UserError
from regard.core.ledger import total_parameters
from regard.core.settings import read_settings, to_table
from regard.models.families import Family
from regard.ops.cpu import library
from regard.runs.experiment import Experiment, build_experiment
from regard.runs.models.init_from import preview_initial_model
from regard.runs.observer import Observer
from regard.runs.recipe import Recipe
from regard.studies.flop_count import FlopCount
from regard.studies.study import Budget, LoadedStudy, Variant
from regard.training.loop import update
from regard.training.optimizer import build_optimizer

TIMED_UPDATES = 4
MAX_WIDTH_FACTOR = 4
"How far the width of a variant may grow to match parameters."


@dataclass(frozen=True)
class VariantBudget:
    """A variant after parameters are matched and its steps are set."""

    variant: Variant
    parameters: int
    steps: int
    operations: float
    "FLOPs of one update: matrix products only, element-wise operations not counted."


def allocate_budgets(loaded: LoadedStudy, *, observer: Observer) -> list[VariantBudget]:
    """Set the steps of every variant; the reference keeps those of its recipe."""
    study = loaded.study
    experiments = {
        variant.name: _build_experiment(variant.recipe, observer) for variant in loaded.variants
    }
    target = _count_parameters(experiments[loaded.reference.name])
    variants = []
    for variant in loaded.variants:
        if study.match == "parameters" and variant.name != loaded.reference.name:
            matched = _match_parameters(variant, experiments[variant.name], target)
            if matched.recipe != variant.recipe:
                experiments[variant.name] = _build_experiment(matched.recipe, observer)
            variant = matched
        variants.append(variant)
    reference = experiments[loaded.reference.name]
    return [
        _variant_budget(variant, experiments[variant.name], reference, budget=study.budget)
        for variant in variants
    ]


def _build_experiment(recipe: Recipe, observer: Observer) -> Experiment:
    previewed, initial_model = preview_initial_model(recipe, runs=Path("runs"))
    return build_experiment(previewed, initial_model=initial_model, observer=observer)


def _variant_budget(
    variant: Variant, experiment: Experiment, reference: Experiment, *, budget: Budget
) -> VariantBudget:
    steps = experiment.loader.steps
    if budget != "steps":
        ratio = _update_cost(reference, budget) / _update_cost(experiment, budget)
        steps = max(1, round(reference.loader.steps * ratio))
    train = variant.recipe.train.model_copy(update={"max_steps": steps, "epochs": None})
    recipe = variant.recipe
    if budget != "steps":
        recipe = recipe.model_copy(update={"train": train})
    return VariantBudget(
        replace(variant, recipe=recipe),
        _count_parameters(experiment),
        steps,
        update_flops(experiment),
    )


def _update_cost(experiment: Experiment, budget: Budget) -> float:
    """Cost of one update in the unit of the budget."""
    if budget == "tokens":
        plan = experiment.loader.plan(0)
        batches = [experiment.loader.build_batch(rows, epoch=0) for rows in plan[:TIMED_UPDATES]]
        return sum(batch.tokens for batch in batches) / len(batches)
    return update_flops(experiment) if budget == "flops" else _update_seconds(experiment)


def update_flops(experiment: Experiment) -> float:
    """FLOPs of one update, forward and backward, by torch's operations: kernels have formulas too,
    but a budget must not depend on the CPU."""
    batch = experiment.loader.build_batch(experiment.loader.plan(0)[0], epoch=0).to(
        experiment.machine.device
    )
    model = experiment.model.train()
    with library.without_kernels(), FlopCount() as counter:
        losses = [term.sum / term.weight for term in model(batch).values()]
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    model.zero_grad(set_to_none=True)
    return float(counter.flops)


def _update_seconds(experiment: Experiment) -> float:
    """Median time of a few updates; at learning rate 0 the weights do not change."""
    optimizer = build_optimizer(experiment.model, experiment.recipe.train)
    rows = experiment.loader.plan(0)
    seconds = []
    for step in range(TIMED_UPDATES + 1):
        batch = experiment.loader.build_batch(rows[step % len(rows)], epoch=0)
        start = time.perf_counter()
        update(
            experiment.model,
            optimizer,
            batch,
            step=step + 1,
            lr=0.0,
            settings=experiment.recipe.train,
            machine=experiment.machine,
        )
        seconds.append(time.perf_counter() - start)
    return median(seconds[1:])


def _count_parameters(experiment: Experiment) -> int:
    return sum(parameter.numel() for parameter in experiment.model.parameters())


def _match_parameters(variant: Variant, experiment: Experiment, target: int) -> Variant:
    """The variant at the width whose parameter count, by formula, is closest to `target`."""
    family, vocabulary = variant.recipe.model, experiment.prepared.tokenizer.size
    width = getattr(family, "width", None)
    if not isinstance(width, int):
        raise UserError(
            f"variant {variant.name} has no width to match parameters by",
            topic="study",
            hint='Set match = "nothing".',
        )
    heads = getattr(family, "heads", 1)
    candidates = [
        candidate
        for new_width in range(heads, MAX_WIDTH_FACTOR * width + 1, heads)
        if (candidate := _with_width(family, new_width)) is not None
    ]
    closest = min(
        candidates, key=lambda one: abs(total_parameters(one.count_parameters(vocabulary)) - target)
    )
    return replace(variant, recipe=variant.recipe.model_copy(update={"model": closest}))


def _with_width(family: Family, width: int) -> Family | None:
    """The same family at another width; None if other settings do not allow that width."""
    try:
        return read_settings(type(family), {**to_table(family), "width": width})
    except UserError:
        return None
