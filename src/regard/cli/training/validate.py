"""`regard validate`: check a recipe and predict its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, UserFiles, console, print_json, side_console
from regard.cli.training.train import Overrides, RecipeFile

MAX_CLASSES_SHOWN = 8

if TYPE_CHECKING:
    from regard.runs.preflight.memory_per_rank import MemoryPerRank
    from regard.runs.preflight.validate import Validation
    from regard.runs.recipe import Recipe


def validate(
    recipe: RecipeFile,
    overrides: Overrides = None,
    user_files: UserFiles = None,
    world_size: Annotated[
        int | None,
        typer.Option("--world-size", help="Predict the memory of each of this many processes."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Predict the memory on this accelerator: H100-80GB."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a recipe and predict its cost, without training.

    The pre-flight of `train`: it checks settings, data and memory, and predicts parameters, steps,
    time and what the held-out splits could show. It tokenizes the text (cached for training) and
    times a few updates of a throw-away model.

    With --world-size or --device it predicts instead what the training takes of each device, which
    need not be here, and builds no model."""
    from regard import api
    from regard.evaluation.formatting import memory_size, percent
    from regard.progress.training_display import forecast_sentence, training_display
    from regard.runs.recipe import Recipe

    api.load_parts(user_files or ())
    loaded = Recipe.load(recipe, overrides=overrides or ())
    if world_size is not None or device is not None:
        _plan(loaded, world_size=world_size, device=device, as_json=as_json)
        return
    with training_display(side_console()) as observer:
        validation = api.validate(loaded, observer=observer)
    if as_json:
        print_json(validation.as_dict())
        return
    console().print(f"  {recipe} is valid", markup=False)
    if validation.advice:
        text = f"  advice  {validation.advice}"
        console().print(text, style="yellow", markup=False, soft_wrap=True)
    _print_data(validation)
    _print_parameters(validation)
    trained = validation.ledger
    if trained.total < trained.of:
        console().print(
            f"  adapt.kind = {trained.adapter!r} trains {trained.total:,} of {trained.of:,} "
            f"({trained.fraction:.3%})",
            markup=False,
        )
    console().print(f"  {forecast_sentence(validation.forecast)}", markup=False)
    console().print(
        f"  memory  {memory_size(validation.memory.available)} free "
        f"of {memory_size(validation.memory.total)}"
    )
    console().print(f"  padding waste {percent(validation.padding_waste)}")
    if validation.trained_first:
        console().print(
            f"  {validation.trained_first} is trained first (not counted here)", markup=False
        )


def _plan(recipe: Recipe, *, world_size: int | None, device: str | None, as_json: bool) -> None:
    """Memory of each rank."""
    from regard import api
    from regard.progress.training_display import training_display

    with training_display(side_console()) as observer:
        plan = api.memory_per_rank(
            recipe,
            world_size=1 if world_size is None else world_size,
            device=device,
            observer=observer,
        )
    if as_json:
        print_json(plan.as_dict())
    else:
        _print_plan(plan)


def _print_plan(plan: MemoryPerRank) -> None:
    from regard.cli.tables import plain_table, print_indented
    from regard.evaluation.formatting import memory_size, quantity

    batch = f"{quantity(plan.rows, 'rows')} a batch, {plan.rank_rows:,} on a rank"
    console().print(
        f"  {plan.world_size:,} × {plan.device} with {memory_size(plan.device_bytes)}, "
        f"{plan.precision}; {batch}, {plan.micro_rows:,} at once ({plan.positions:,} positions)",
        markup=False,
        soft_wrap=True,
    )
    table = plain_table()
    table.add_column("on each rank")
    for option in plan.options:
        table.add_column(option.parallel, justify="right")
    for name in ("parameters", "gradients", "moments", "activations", "buffers", "reserved"):
        table.add_row(name, *(memory_size(getattr(option, name)) for option in plan.options))
    table.add_row("together", *(memory_size(option.total) for option in plan.options))
    table.add_row("fits", *("yes" if plan.fits(option) else "no" for option in plan.options))
    table.add_row("sent in a step", *(memory_size(option.sent) for option in plan.options))
    print_indented(table)
    for change in plan.changes:
        console().print(f"  {change}", style="yellow", markup=False, soft_wrap=True)


def _print_data(validation: Validation) -> None:
    """Sizes, classes and overlap of the splits, and what dev and test could show."""
    from regard.cli.tables import plain_table, print_indented
    from regard.evaluation.formatting import percent
    from regard.evaluation.statistics.planning import DISAGREEMENT

    items = "rows" if validation.recipe.task is not None else "documents"
    table = plain_table()
    for heading in ("split", items, "tokens", "in training", "scored"):
        table.add_column(heading, justify="left" if heading == "split" else "right")
    for name, split in validation.splits.items():
        overlap, scored = validation.overlap.get(name), validation.scored.get(name)
        table.add_row(
            name,
            f"{split.documents:,}",
            f"{split.tokens:,}",
            f"{overlap.overlapping:,}" if overlap else "",
            f"{scored:,}" if scored is not None else "",
        )
    print_indented(table)
    for name, counts in validation.labels.items():
        total = sum(counts.values())
        shown = [f"{label} {percent(n / total)}" for label, n in counts.items()]
        more = f", … ({len(shown):,} classes)" if len(shown) > MAX_CLASSES_SHOWN else ""
        text = f"  classes of {name}  {', '.join(shown[:MAX_CLASSES_SHOWN])}{more}"
        console().print(text, markup=False, soft_wrap=True)
    for name, difference in validation.differences.items():
        console().print(
            f"  {name} shows a difference in accuracy of {difference:.2g} or more between two "
            f"models, if they disagree on {percent(DISAGREEMENT)} of its rows",
            markup=False,
            soft_wrap=True,
        )


def _print_parameters(validation: Validation) -> None:
    """Parameters of each module with their formula, and the sum."""
    from regard.cli.tables import plain_table, print_indented
    from regard.core.ledger import total_parameters

    terms = validation.parameters
    table = plain_table(show_footer=True)
    table.add_column("parameters of", footer=f"total, with v = {validation.vocabulary:,} tokens")
    table.add_column("count", justify="right", footer=f"{total_parameters(terms):,}")
    table.add_column("formula")
    for term in terms:
        table.add_row(term.name, f"{term.value:,}", term.formula)
    print_indented(table)
