"""`regard train`: train a recipe into a run folder, evaluate it, write the report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import complete_recipe, complete_setting
from regard.cli.console import AsJson, UserFiles, console, print_json, side_console
from regard.training.parallel.launch import launched_rank

if TYPE_CHECKING:
    from regard.runs.run import Run

RecipeFile = Annotated[
    Path,
    typer.Argument(
        metavar="RECIPE", autocompletion=complete_recipe, help="Recipe (TOML) or run folder."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=complete_setting,
        help="Override a setting: --set train.lr=1e-3; repeatable.",
    ),
]


def train(
    recipe: RecipeFile,
    out: Annotated[Path | None, typer.Option(help="Run folder; default: runs/NAME.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted run from its last checkpoint.")
    ] = False,
    audit_again: Annotated[
        bool,
        typer.Option("--audit-again", help="Audit even an architecture that was audited before."),
    ] = False,
    overrides: Overrides = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Train a recipe and evaluate it next to its baselines. Writes a report."""
    from regard import api
    from regard.cli.training.results_table import print_results
    from regard.core.json_records import record_table

    run = train_recipe(
        recipe,
        out=out,
        resume=resume,
        audit_again=audit_again,
        overrides=overrides or (),
        user_files=user_files or (),
    )
    if launched_rank():
        return  # rank 0 reports
    report, results = api.report(run.folder), run.results()
    if as_json:
        table = record_table(results) | {"run": str(run.folder), "report": str(report)}
        print_json(table)
        return
    print_results(results, title=str(run.folder))
    console().print(f"  report  {report}", markup=False)


def train_recipe(
    recipe: Path,
    *,
    out: Path | None,
    resume: bool,
    audit_again: bool = False,
    overrides: Sequence[str] = (),
    user_files: Sequence[Path] = (),
) -> Run:
    """Train it with progress on standard error; a signal that stops it is said there too."""
    from regard import api
    from regard.progress.training_display import training_display
    from regard.runs.observer import SILENT
    from regard.runs.recipe import Recipe
    from regard.training.interrupt import TrainingInterrupt, exit_code
    from regard.training.parallel.join import joined_ranks

    folder = out or recipe
    try:
        with joined_ranks() as ranks:
            api.load_parts(user_files)
            loaded = Recipe.load(recipe, overrides=overrides)
            folder = out or (recipe if recipe.is_dir() else Path("runs") / loaded.name)
            display = training_display(side_console()) if ranks.is_first else nullcontext(SILENT)
            with display as observer:
                return api.train(
                    loaded, out=folder, resume=resume, audit_again=audit_again, observer=observer
                )
    except (TrainingInterrupt, KeyboardInterrupt) as stopped:
        message = str(stopped) or "stopped"
        files = "".join(f" --with {file}" for file in user_files)
        resumed = f"regard train {folder} --resume{files}"
        command = resumed if folder.is_dir() else "the same command"
        print(f"\n{message}. Resume with: {command}", file=sys.stderr)
        raise SystemExit(exit_code(stopped)) from None
