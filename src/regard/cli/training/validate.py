"""`regard validate`: what a recipe would do, told before it is done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.console import AsJson, UserFiles, console, print_json
from regard.cli.training.display import forecast_sentence, training_display
from regard.cli.training.train import Overrides, RecipeFile

if TYPE_CHECKING:
    from regard.core.parameter_count import ParameterCount
    from regard.runs.recipe import Recipe


def validate(
    recipe: RecipeFile,
    overrides: Overrides = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Check a recipe and predict parameters, steps, time and memory, without training it.

    The text is tokenised (and kept, so that training finds it done) and a few updates of a
    throw-away model are timed."""
    from dataclasses import asdict

    from regard import api
    from regard.runs.experiment import build_experiment, forecast_experiment
    from regard.runs.models.init_from import preview_initial_model
    from regard.runs.recipe import Recipe

    api.load_parts(user_files or ())
    loaded = Recipe.load(recipe, overrides=overrides or ())
    with training_display() as observer:
        previewed, start = preview_initial_model(loaded, runs=Path("runs"))
        bench = build_experiment(previewed, initial_model=start, observer=observer)
        predicted = forecast_experiment(bench)
    waste = bench.loader.padding_waste()
    terms = bench.recipe.model.count_parameters(bench.vocabulary)
    if as_json:
        counted = [asdict(term) for term in terms]
        told = {"recipe": bench.recipe.to_table(), **predicted.as_dict(), "waste": waste}
        print_json({**told, "parameters_by_part": counted})
        return
    parts = bench.prepared.statistics["splits"]
    console().print(f"  {recipe} is valid", markup=False)
    _print_advice(bench.recipe)
    for name, part in parts.items():
        console().print(
            f"  {name:5} {part['documents']:>9,} documents {part['tokens']:>12,} tokens"
        )
    _print_parameters(terms, vocabulary=bench.vocabulary)
    trained = bench.ledger()
    if trained.total < trained.of:
        console().print(
            f"  adapt.kind = {trained.adapter!r} trains {trained.total:,} of {trained.of:,} "
            f"({trained.fraction:.3%})",
            markup=False,
        )
    console().print(f"  {forecast_sentence(predicted.as_dict())}", markup=False)
    console().print(f"  padding waste {waste:.1%}")
    if loaded.init_from and start is None:
        console().print(f"  {loaded.init_from} is trained first (not counted here)", markup=False)


def _print_advice(recipe: Recipe) -> None:
    """Which family the task is best started with, where the recipe has another."""
    from regard.core.settings import catalog_name
    from regard.models.families import FAMILIES
    from regard.tasks import TASKS
    from regard.tasks.advice import advise

    if recipe.task is None:
        return
    kind = catalog_name(recipe.task, TASKS)
    advice = advise(kind)
    if catalog_name(recipe.model, FAMILIES) != advice.family:
        text = f"  advice  task.kind = {kind!r} is {advice}"
        console().print(text, style="yellow", markup=False, soft_wrap=True)


def _print_parameters(terms: list[ParameterCount], *, vocabulary: int) -> None:
    """Each part of the model with its formula, and the sum."""
    from rich.padding import Padding
    from rich.table import Table

    from regard.core.parameter_count import total_parameters

    table = Table(box=None, padding=(0, 2, 0, 0), show_footer=True)
    table.add_column("parameters of", footer=f"all, with v = {vocabulary:,} tokens")
    table.add_column("count", justify="right", footer=f"{total_parameters(terms):,}")
    table.add_column("formula")
    for term in terms:
        table.add_row(term.name, f"{term.value:,}", term.formula)
    console().print(Padding(table, (0, 0, 0, 2)))
