"""Training, evaluating and comparing: from a recipe or a study to a folder with results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from regard.api.arguments import as_files, as_path, load_parts
from regard.api.models import load
from regard.api.observers import observed_study, observed_training
from regard.core.errors import UserError
from regard.runs.models.base_model import weights_fingerprint
from regard.runs.observer import Observer
from regard.runs.preparation.prepare import prepare
from regard.runs.preparation.prepared import PreparedData
from regard.runs.preparation.task import PreparedTask
from regard.runs.recipe import Recipe
from regard.runs.results import EvaluationRecord, ResultsRecord
from regard.runs.run import Run
from regard.runs.train import run_experiment
from regard.runs.validate import Validation, validate_recipe
from regard.training.interrupt import signals_as_interrupt

if TYPE_CHECKING:
    from regard.studies.engines.schedule import StudySchedule
    from regard.studies.outcome import Outcome


def train(
    recipe: Recipe | str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    resume: bool = False,
    audit_again: bool = False,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> Run:
    """Train a recipe, evaluate the model, and return the run (`runs/<name>` or `out`).

    The audit of an earlier run of the same architecture is reused, unless `audit_again`.
    `user_files` are Python files with parts that the recipe names; the run keeps a copy of them.
    """
    load_parts(user_files)
    if not isinstance(recipe, Recipe):
        recipe = Recipe.load(as_path(recipe, "recipe"))
    folder = Path("runs") / recipe.name if out is None else as_path(out, "out")
    with signals_as_interrupt(), observed_training(observer) as on_training:
        return run_experiment(
            recipe, folder, resume=resume, audit_again=audit_again, observer=on_training
        )


def validate(
    recipe: Recipe | str | PathLike[str],
    *,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> Validation:
    """Check a recipe and predict its parameters, steps, time and memory, without training.

    Tokenizes the text (cached for training) and times a few updates of a throw-away model.
    """
    load_parts(user_files)
    if not isinstance(recipe, Recipe):
        recipe = Recipe.load(as_path(recipe, "recipe"))
    with observed_training(observer) as on_training:
        return validate_recipe(recipe, runs=Path("runs"), observer=on_training)


def compare(
    study: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    seeds: Sequence[int] = (),
    jobs: int = 0,
    only: str | Sequence[str] = (),
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> Outcome:
    """Train a study's variants with every seed, compare them, and write the report.

    Finished runs are kept: calling it again resumes an interrupted study. `jobs` trainings run in
    parallel, 0: one per CPU core; `seeds` override the study's; of variants that are not in `only`
    no run is trained. The folder of a finished study is read back instead. A study of which no run
    is finished is an error, after its report is written.
    """
    from regard.reports.study_report import write_comparison_report
    from regard.studies.compare import compare as run_study
    from regard.studies.outcome import read_outcome

    study = as_path(study, "study")
    out = None if out is None else as_path(out, "out")
    only = [only] if isinstance(only, str) else only
    if not isinstance(jobs, int) or jobs < 0:
        raise UserError(f"jobs = {jobs!r}: give how many run in parallel, 0: one per CPU core")
    if not isinstance(seeds, Collection) or not all(isinstance(seed, int) for seed in seeds):
        raise UserError(f"seeds = {seeds!r}: give a list of integers")
    files = as_files(user_files)
    load_parts(files)
    if study.is_dir():
        if out is not None or seeds or only:
            raise UserError(
                "is the folder of a study, which is only read: it takes no out, seeds or only",
                topic="study",
                where=str(study),
                hint="Give the study file (TOML) to train.",
            )
        outcome = read_outcome(study)
    else:
        with signals_as_interrupt(), observed_study(observer) as on_study:
            outcome = run_study(
                study,
                out=out,
                seeds=seeds,
                jobs=jobs,
                only=only,
                user_files=files,
                observer=on_study,
            )
    write_comparison_report(outcome.folder, outcome)
    outcome.check_some_run_is_finished()
    return outcome


def plan(
    study: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    seeds: Sequence[int] = (),
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> StudySchedule:
    """The trainings that are left of a study, as commands for another scheduler.

    Prepares the data and fixes every recipe, but trains nothing. Once the commands have ended,
    `compare` collects and judges; where tuning trials or initial models come first, the rest
    follows from them, and `plan` is called again.
    """
    from regard.studies.compare import schedule

    files = as_files(user_files)
    load_parts(files)
    with observed_training(observer) as on_study:
        return schedule(
            as_path(study, "study"),
            out=None if out is None else as_path(out, "out"),
            seeds=seeds,
            user_files=files,
            observer=on_study,
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
    if (home / "study.toml").is_file() or (home / OUTCOME_FILE).is_file():
        return write_comparison_report(home, read_outcome(home), out=page)
    return write_report(home, out=page)


def evaluate(
    run: str | PathLike[str],
    *,
    base: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> EvaluationRecord:
    """Evaluate a finished run again, from its recipe: estimates, baselines and remarks."""
    run_folder = Run(as_path(run, "run"))
    loaded = load(run, base=base, user_files=user_files)
    if not run_folder.recipe_file.is_file():
        raise UserError(
            f"{run_folder.folder} is a model without its recipe, so its corpus is unknown",
            topic="run",
            hint="Give the run folder it belongs to, such as runs/mini-gpt.",
        )
    with observed_training(observer) as on_evaluation:
        prepared = prepare(
            run_folder.recipe(),
            tokenizer=loaded.tokenizer,
            task_state=loaded.problem.state() if loaded.problem else None,
            observer=on_evaluation,
        )
        results = run_folder.results()
        _check_same_text(run_folder, results, prepared)
        if isinstance(prepared, PreparedTask) and loaded.problem is not None:
            prepared.problem = loaded.problem  # keeps the thresholds chosen on dev
        evaluated = prepared.evaluate(loaded.model, device="cpu", observer=on_evaluation)
    return EvaluationRecord(
        run=str(run_folder.folder),
        weights=weights_fingerprint(loaded.folder),
        estimates=evaluated.estimates,
        comparisons=evaluated.comparisons,
        contamination=evaluated.contamination,
        data_flaws=prepared.data_flaws,
        audit=results.audit,
        health=results.health,
        remarks=results.remarks,
    )


def _check_same_text(run: Run, results: ResultsRecord, prepared: PreparedData) -> None:
    splits = results.corpus.splits if results.corpus else {}
    for name, split in prepared.statistics.splits.items():
        before, now = splits[name].fingerprint, split.fingerprint
        if before != now:
            raise UserError(
                f"the text of {run.folder} has changed: its {name} split was {before[:8]}… and "
                f"is {now[:8]}… now, so scores would be of other documents",
                topic="run",
                hint="Put the old text back, or train on the new.",
            )
