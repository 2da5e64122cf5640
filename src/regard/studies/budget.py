"""What variants have equally: steps, tokens, operations or seconds; and, by choice, parameters.

The reference's recipe sets the budget. Steps of the others follow from what one of their updates
costs, worked out before anything is trained and written into their recipes, so that a study that
is killed goes on with the same.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.core.errors import UserError
from regard.core.parameter_count import total_parameters
from regard.core.settings import read_settings, to_table
from regard.models.families import Family
from regard.runs.experiment import Experiment, build_experiment
from regard.runs.models.init_from import preview_initial_model
from regard.runs.observer import Observer
from regard.runs.recipe import Recipe
from regard.studies.study import Budget, LoadedStudy, Variant
from regard.training.loop import update
from regard.training.optimizer import build_optimizer

TIMED_UPDATES = 4
WIDEST = 4
"Times its own width that a variant may grow to match parameters."


@dataclass(frozen=True)
class VariantBudget:
    """A variant after parameters were matched and the budget was shared out."""

    variant: Variant
    parameters: int
    steps: int
    operations: float
    "Matrix products of one update, in floating-point operations; element-wise work not counted."


def share_out(loaded: LoadedStudy, *, watch: Observer) -> list[VariantBudget]:
    """Every variant with its own steps; the reference keeps what its recipe says."""
    study = loaded.study
    benches = {variant.name: _bench(variant.recipe, watch) for variant in loaded.variants}
    wanted = _parameters(benches[loaded.reference.name])
    variants = []
    for variant in loaded.variants:
        if study.match == "parameters" and variant.name != loaded.reference.name:
            matched = _matched(variant, benches[variant.name], wanted)
            if matched.recipe != variant.recipe:
                benches[variant.name] = _bench(matched.recipe, watch)
            variant = matched
        variants.append(variant)
    reference = benches[loaded.reference.name]
    return [
        _shared(variant, benches[variant.name], reference, budget=study.budget)
        for variant in variants
    ]


def _bench(recipe: Recipe, watch: Observer) -> Experiment:
    previewed, start = preview_initial_model(recipe, runs=Path("runs"))
    return build_experiment(previewed, start=start, watch=watch)


def _shared(
    variant: Variant, bench: Experiment, reference: Experiment, *, budget: Budget
) -> VariantBudget:
    steps = bench.stream.steps
    if budget != "steps":
        ratio = _cost(reference, budget) / _cost(bench, budget)
        steps = max(1, round(reference.stream.steps * ratio))
    train = variant.recipe.train.model_copy(update={"max_steps": steps, "epochs": None})
    recipe = variant.recipe if budget == "steps" else _with(variant.recipe, train=train)
    return VariantBudget(
        replace(variant, recipe=recipe),
        _parameters(bench),
        steps,
        operations_of(bench),
    )


def _cost(bench: Experiment, budget: Budget) -> float:
    """Of one update, in the budget's own unit."""
    if budget == "tokens":
        plan = bench.stream.plan(0)
        batches = [bench.stream.build_batch(rows, epoch=0) for rows in plan[:TIMED_UPDATES]]
        return sum(batch.tokens for batch in batches) / len(batches)
    return operations_of(bench) if budget == "flops" else _seconds_of(bench)


def operations_of(bench: Experiment) -> float:
    """Floating-point operations of one update, forward and backward."""
    batch = bench.stream.build_batch(bench.stream.plan(0)[0], epoch=0).to(bench.machine.device)
    model = bench.model.train()
    with FlopCounterMode(display=False, custom_mapping=_FUSED) as counter:
        losses = [term.sum / term.weight for term in model(batch).values()]
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    model.zero_grad(set_to_none=True)
    return float(counter.get_total_flops())


def _seconds_of(bench: Experiment) -> float:
    """Of one update, the median of a few; the learning rate is 0, so nothing is learnt."""
    optimizer = build_optimizer(bench.model, bench.recipe.train)
    rows = bench.stream.plan(0)
    timed = []
    for step in range(TIMED_UPDATES + 1):
        batch = bench.stream.build_batch(rows[step % len(rows)], epoch=0)
        began = time.perf_counter()
        update(
            bench.model,
            optimizer,
            batch,
            step=step + 1,
            lr=0.0,
            settings=bench.recipe.train,
            machine=bench.machine,
        )
        timed.append(time.perf_counter() - began)
    return median(timed[1:])


def _parameters(bench: Experiment) -> int:
    return sum(parameter.numel() for parameter in bench.model.parameters())


def _matched(variant: Variant, bench: Experiment, wanted: int) -> Variant:
    """The variant at the width whose count, by formula, comes nearest to what is wanted."""
    family, vocabulary = variant.recipe.model, bench.prepared.tokenizer.size
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
        for wide in range(heads, WIDEST * width + 1, heads)
        if (candidate := _of_width(family, wide)) is not None
    ]
    best = min(
        candidates, key=lambda one: abs(total_parameters(one.count_parameters(vocabulary)) - wanted)
    )
    return replace(variant, recipe=_with(variant.recipe, model=best))


def _of_width(family: Family, width: int) -> Family | None:
    """The same family at another width; None where its parts do not fit into it."""
    try:
        return read_settings(type(family), {**to_table(family), "width": width})
    except UserError:
        return None


def _with(recipe: Recipe, **parts: Any) -> Recipe:
    return recipe.model_copy(update=parts)


def _fused_flops(q: Sequence[int], k: Sequence[int], v: Sequence[int], *_: Any, **__: Any) -> int:
    """Scores, then the mix: (b,h,i,d), (b,h,j,d), (b,h,j,e)."""
    b, h, i, d = q
    return 2 * b * h * i * k[2] * (d + v[3])


def _fused_backward(
    grad: Sequence[int], q: Sequence[int], k: Sequence[int], v: Sequence[int], *_: Any, **__: Any
) -> int:
    # Scores anew, then the gradients of values, weights, queries and keys: five products for two.
    return _fused_flops(q, k, v) * 5 // 2


_FUSED = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _fused_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _fused_backward,
}
"The counter knows the fused kernels of GPUs alone."
