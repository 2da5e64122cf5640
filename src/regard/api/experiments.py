"""Training: from a recipe to a folder with results, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from regard.api.arguments import as_path, load_parts
from regard.api.observers import observed_training
from regard.api.recipes import AnyRecipe, as_recipe
from regard.runs.locking.lock import lock_run
from regard.runs.observer import SILENT, Observer
from regard.runs.preflight.memory_per_rank import MemoryPerRank
from regard.runs.preflight.memory_per_rank import memory_per_rank as plan_memory
from regard.runs.preflight.validate import Validation, validate_recipe
from regard.runs.run import Run
from regard.runs.train import run_experiment
from regard.training.interrupt import signals_as_interrupt
from regard.training.parallel.join import joined_ranks


def train(
    recipe: AnyRecipe,
    *,
    set: Mapping[str, Any] | None = None,
    out: str | PathLike[str] | None = None,
    resume: bool = False,
    audit_again: bool = False,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> Run:
    """Train a recipe, evaluate the model, and return the run (`runs/<name>` or `out`).

    `recipe` is a file, a run folder, or a dictionary with the tables of a recipe; `set` changes
    settings: {"train.lr": 1e-3}. Paths in a file are relative to it, or else to the working
    directory; those of a dictionary and of `set` are relative to the working directory.
    The audit of an earlier run of the same architecture is reused, unless `audit_again`.
    `user_files` are Python files with parts that the recipe names; the run keeps a copy of them.
    """
    with joined_ranks() as ranks:
        load_parts(user_files)
        resolved = as_recipe(recipe, set)
        folder = Path("runs") / resolved.name if out is None else as_path(out, "out")
        watched = observer if ranks.is_first else SILENT
        with signals_as_interrupt(), observed_training(watched) as on_training:
            return run_experiment(
                resolved,
                folder,
                resume=resume,
                audit_again=audit_again,
                observer=on_training,
                ranks=ranks,
            )


def validate(
    recipe: AnyRecipe,
    *,
    set: Mapping[str, Any] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> Validation:
    """Check a recipe and predict its parameters, steps, time and memory, without training.

    `recipe` and `set` are those of `train`.
    Tokenizes the text (cached for training) and times a few updates of a throw-away model.
    """
    load_parts(user_files)
    resolved = as_recipe(recipe, set)
    with observed_training(observer) as on_training:
        return validate_recipe(resolved, runs=Path("runs"), observer=on_training)


def memory_per_rank(
    recipe: AnyRecipe,
    *,
    world_size: int = 1,
    device: str | None = None,
    set: Mapping[str, Any] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> MemoryPerRank:
    """Predict the memory of each of `world_size` processes, and whether it fits, without training.

    `recipe` and `set` are those of `train`; `device` is the name of an accelerator, such as
    "H100-80GB", which need not be here; without it the processes share this machine.
    Tokenizes the text (cached for training).
    """
    load_parts(user_files)
    resolved = as_recipe(recipe, set)
    with observed_training(observer) as on_training:
        return plan_memory(
            resolved,
            world_size=world_size,
            device=device,
            runs=Path("runs"),
            observer=on_training,
        )


def report(
    folder: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> Path:
    """Write the HTML report of a run or a study to `out`, by default `folder`/report.html.

    Without `out`, a study also gets its tables (Markdown, LaTeX) and charts (SVG, PNG).
    """
    from regard.reports.run_report import write_report
    from regard.reports.study_report import write_comparison_report
    from regard.studies.outcome import OUTCOME_FILE, read_outcome

    home, page = as_path(folder, "folder"), None if out is None else as_path(out, "out")
    load_parts(user_files)
    with lock_run(home, "report") if page is None and home.is_dir() else nullcontext():
        if (home / "study.toml").is_file() or (home / OUTCOME_FILE).is_file():
            return write_comparison_report(home, read_outcome(home), out=page)
        return write_report(home, out=page)
