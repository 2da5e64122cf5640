"""`regard validate`: check a recipe and predict its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.cli.console import AsJson, UserFiles, console, print_json, side_console
from regard.cli.training.train import Overrides, RecipeFile

if TYPE_CHECKING:
    from regard.runs.validate import Validation


def validate(
    recipe: RecipeFile,
    overrides: Overrides = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Check a recipe and predict its cost, without training.

    Predicts parameters, steps, time and memory. Tokenizes the text (cached for training) and
    times a few updates of a throw-away model."""
    from regard import api
    from regard.progress.training_display import forecast_sentence, training_display
    from regard.runs.recipe import Recipe

    api.load_parts(user_files or ())
    loaded = Recipe.load(recipe, overrides=overrides or ())
    with training_display(side_console()) as observer:
        validation = api.validate(loaded, observer=observer)
    if as_json:
        print_json(validation.as_dict())
        return
    console().print(f"  {recipe} is valid", markup=False)
    if validation.advice:
        text = f"  advice  {validation.advice}"
        console().print(text, style="yellow", markup=False, soft_wrap=True)
    for name, split in validation.splits.items():
        console().print(f"  {name:5} {split.documents:>9,} documents {split.tokens:>12,} tokens")
    _print_parameters(validation)
    trained = validation.ledger
    if trained.total < trained.of:
        console().print(
            f"  adapt.kind = {trained.adapter!r} trains {trained.total:,} of {trained.of:,} "
            f"({trained.fraction:.3%})",
            markup=False,
        )
    console().print(f"  {forecast_sentence(validation.forecast)}", markup=False)
    console().print(f"  padding waste {validation.padding_waste:.1%}")
    if validation.trained_first:
        console().print(
            f"  {validation.trained_first} is trained first (not counted here)", markup=False
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
