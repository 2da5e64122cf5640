"""`regard validate`: check a recipe and predict its cost."""

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
    """Check a recipe and predict its cost, without training.

    Predicts parameters, steps, time and memory. Tokenizes the text (cached for training) and
    times a few updates of a throw-away model."""
    from dataclasses import asdict

    from regard import api
    from regard.runs.experiment import build_experiment, forecast_experiment
    from regard.runs.models.init_from import preview_initial_model
    from regard.runs.recipe import Recipe

    api.load_parts(user_files or ())
    loaded = Recipe.load(recipe, overrides=overrides or ())
    with training_display() as observer:
        previewed, initial_model = preview_initial_model(loaded, runs=Path("runs"))
        experiment = build_experiment(previewed, initial_model=initial_model, observer=observer)
        forecast = forecast_experiment(experiment)
    waste = experiment.loader.padding_waste()
    terms = experiment.recipe.model.count_parameters(experiment.vocabulary)
    if as_json:
        table = {"recipe": experiment.recipe.to_table(), **forecast.as_dict(), "waste": waste}
        print_json({**table, "parameters_by_module": [asdict(term) for term in terms]})
        return
    splits = experiment.prepared.statistics.splits
    console().print(f"  {recipe} is valid", markup=False)
    _print_advice(experiment.recipe)
    for name, split in splits.items():
        console().print(f"  {name:5} {split.documents:>9,} documents {split.tokens:>12,} tokens")
    _print_parameters(terms, vocabulary=experiment.vocabulary)
    trained = experiment.ledger()
    if trained.total < trained.of:
        console().print(
            f"  adapt.kind = {trained.adapter!r} trains {trained.total:,} of {trained.of:,} "
            f"({trained.fraction:.3%})",
            markup=False,
        )
    console().print(f"  {forecast_sentence(forecast)}", markup=False)
    console().print(f"  padding waste {waste:.1%}")
    if loaded.init_from and initial_model is None:
        console().print(f"  {loaded.init_from} is trained first (not counted here)", markup=False)


def _print_advice(recipe: Recipe) -> None:
    """The recommended family for the task, if the recipe has another."""
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
    """Parameters of each module with their formula, and the sum."""
    from rich.padding import Padding
    from rich.table import Table

    from regard.core.parameter_count import total_parameters

    table = Table(box=None, padding=(0, 2, 0, 0), show_footer=True)
    table.add_column("parameters of", footer=f"total, with v = {vocabulary:,} tokens")
    table.add_column("count", justify="right", footer=f"{total_parameters(terms):,}")
    table.add_column("formula")
    for term in terms:
        table.add_row(term.name, f"{term.value:,}", term.formula)
    console().print(Padding(table, (0, 0, 0, 2)))
