"""`regard train` and `regard validate`: run a recipe, or say beforehand what it would do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import AsJson, console, print_json
from regard.cli.figures_table import print_figures
from regard.cli.training_display import forecast_sentence, watched

RecipeFile = Annotated[Path, typer.Argument(help="A recipe (TOML), or a run folder.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Override a setting: --set train.lr=1e-3")
]


def train(
    recipe: RecipeFile,
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/NAME by default.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Train a recipe, measure it beside its baselines, and write the report."""
    from regard import api
    from regard.recipe import Recipe
    from regard.study.report import write_report
    from regard.training.interrupt import InterruptedTraining

    loaded = Recipe.load(recipe, overrides=overrides or ())
    folder = out or (recipe if recipe.is_dir() else Path("runs") / loaded.name)
    try:
        with watched() as watch:
            run = api.train(loaded, out=folder, resume=resume, watch=watch)
    except (InterruptedTraining, KeyboardInterrupt) as stopped:
        words = str(stopped) or "stopped"
        again = f"regard train {folder} --resume" if folder.is_dir() else "the same command"
        print(f"\n{words}. Go on with: {again}", file=sys.stderr)
        raise typer.Exit(130) from None
    report = write_report(run.folder)
    if as_json:
        print_json(run.figures() | {"run": str(run.folder), "report": str(report)})
        return
    print_figures(run.figures(), title=str(run.folder))
    console().print(f"  report  {report}", markup=False)


def validate(recipe: RecipeFile, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Check a recipe and predict steps, time and memory, without training it.

    The text is tokenised (and kept, so that training finds it done) and three updates of a
    throw-away model are timed."""
    from regard.experiment.bench import predict, set_up
    from regard.experiment.start import preview_start
    from regard.recipe import Recipe

    loaded = Recipe.load(recipe, overrides=overrides or ())
    with watched() as watch:
        previewed, start = preview_start(loaded, runs=Path("runs"))
        bench = set_up(previewed, start=start, watch=watch)
        predicted = predict(bench)
    waste = bench.stream.padding_waste()
    if as_json:
        print_json({"recipe": bench.recipe.to_table(), **predicted.as_dict(), "waste": waste})
        return
    parts = bench.prepared.statistics["parts"]
    console().print(f"  {recipe} is valid", markup=False)
    for name, part in parts.items():
        console().print(
            f"  {name:5} {part['documents']:>9,} documents {part['tokens']:>12,} tokens"
        )
    console().print(f"  {forecast_sentence(predicted.as_dict())}", markup=False)
    console().print(f"  padding waste {waste:.1%}")
    if loaded.start and start is None:
        console().print(f"  {loaded.start} is trained first (not counted here)", markup=False)
