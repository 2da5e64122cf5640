"""`regard compare` and `regard sweep`: run a study and print its verdict."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.completion import complete_recipe
from regard.cli.console import AsJson, UserFiles, print_json, side_console
from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.studies.outcome import Outcome

StudyFile = Annotated[
    Path,
    typer.Argument(
        metavar="STUDY",
        autocompletion=complete_recipe,
        help="Study file (TOML), or a finished study's folder.",
    ),
]
Out = Annotated[Path | None, typer.Option(help="Study folder; default: runs/NAME.")]
Seeds = Annotated[str, typer.Option(help="Override the study's list of seeds: 0,1,2 or 0-4.")]
Jobs = Annotated[
    int, typer.Option(min=0, help="Parallel trainings, one thread each; 0: one per CPU core.")
]
Only = Annotated[list[str] | None, typer.Option(help="Train only this variant; repeatable.")]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine", metavar="local|ray", help="What trains: this machine, or a Ray cluster."
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Head of the Ray cluster; default: one on this machine, for this study.",
    ),
]
Storage = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder that every Ray node sees under this path: runs are written there.",
    ),
]

SOME_RUN_IS_MISSING = 3
"Exit code: the study is judged without the runs that failed."


def compare(
    study: StudyFile,
    out: Out = None,
    seeds: Seeds = "",
    jobs: Jobs = 0,
    only: Only = None,
    user_files: UserFiles = None,
    engine: EngineName = "local",
    address: Address = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Train a study's variants with every seed and compare them.

    Finished runs are kept: the same command resumes an interrupted study. Exit code 3: runs are
    missing, and the verdicts are without them."""
    from regard import api

    options = _options(out, seeds, jobs, only, user_files)
    options |= {"engine": engine, "address": address, "storage": storage}
    _run(api.compare, study, options, as_json=as_json)


def sweep(
    study: StudyFile,
    out: Out = None,
    seeds: Seeds = "",
    jobs: Jobs = 0,
    only: Only = None,
    user_files: UserFiles = None,
    engine: EngineName = "local",
    address: Address = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Train every combination of a study's grid and compare them.

    Like compare, for a study with [grid] or [random]."""
    from regard import api

    options = _options(out, seeds, jobs, only, user_files)
    options |= {"engine": engine, "address": address, "storage": storage}
    _run(api.sweep, study, options, as_json=as_json)


def _run(
    run_study: Callable[..., Outcome],
    study: Path,
    options: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    from regard.cli.studies.verdict_table import print_outcome
    from regard.progress.study_display import study_display
    from regard.training.interrupt import exit_code

    try:
        with study_display(side_console()) as observer:
            outcome = run_study(study, **options, observer=observer)
    except KeyboardInterrupt as stopped:
        print("\nstopped; every training is saved. Resume with the same command.", file=sys.stderr)
        raise SystemExit(exit_code(stopped)) from None
    report = outcome.folder / "report.html"
    if as_json:
        print_json(outcome.as_dict() | {"report": str(report)})
    else:
        print_outcome(outcome, report)
    if outcome.lacks_runs(options["only"]):
        raise typer.Exit(SOME_RUN_IS_MISSING)


def _options(
    out: Path | None,
    seeds: str,
    jobs: int,
    only: list[str] | None,
    user_files: list[Path] | None,
) -> dict[str, Any]:
    return {
        "out": out,
        "seeds": parse_seeds(seeds),
        "jobs": jobs,
        "only": only or (),
        "user_files": user_files or (),
    }


def parse_seeds(text: str) -> tuple[int, ...]:
    """`0,1,2` or `0-4`, both ends included."""
    seeds: list[int] = []
    try:
        for item in filter(None, text.split(",")):
            first, dash, last = item.partition("-")
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError:
        raise UserError(f"--seeds {text}: write 0,1,2 or 0-4") from None
    return tuple(seeds)
