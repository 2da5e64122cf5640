"""Comparing: from a study to its outcome."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.api.arguments import as_files, as_path, load_parts
from regard.api.observers import observed_study, observed_training
from regard.core.errors import UserError
from regard.runs.observer import Observer
from regard.training.interrupt import signals_as_interrupt

if TYPE_CHECKING:
    from regard.studies.engines.schedule import StudySchedule
    from regard.studies.outcome import Outcome

AnyStudy = str | PathLike[str] | Mapping[str, Any]


def compare(
    study: AnyStudy,
    *,
    out: str | PathLike[str] | None = None,
    seeds: Sequence[int] = (),
    jobs: int = 0,
    only: str | Sequence[str] = (),
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    engine: str = "local",
    address: str | None = None,
    storage: str | PathLike[str] | None = None,
    observer: Observer | None = None,
) -> Outcome:
    """Train a study's variants with every seed, compare them, and write the report.

    `study` is a file, the folder of a study, or a dictionary as a file would have it, whose `base`
    may be a dictionary too; paths in a dictionary are relative to the working directory.
    Finished runs are kept: calling it again resumes an interrupted study. `jobs` trainings run in
    parallel, 0: one per CPU core; `seeds` override the study's, unless it plans its looks; of
    variants that are not in `only` no run is trained. The folder of a finished study is read back
    instead. A study of which no run is finished is an error, after its report is written.
    `engine="ray"` trains on the Ray cluster at `address`, or on one that is started here; with
    `storage`, a folder that every node sees, runs are written there.
    """
    from regard.reports.study_report import write_comparison_report
    from regard.studies.compare import compare as run_study
    from regard.studies.engines.choice import EngineChoice
    from regard.studies.outcome import read_outcome

    given = study if isinstance(study, Mapping) else as_path(study, "study")
    out = None if out is None else as_path(out, "out")
    only = [only] if isinstance(only, str) else only
    if not isinstance(jobs, int) or jobs < 0:
        raise UserError(f"jobs = {jobs!r}: give how many run in parallel, 0: one per CPU core")
    if not isinstance(seeds, Collection) or not all(isinstance(seed, int) for seed in seeds):
        raise UserError(f"seeds = {seeds!r}: give a list of integers")
    folder = None if storage is None else as_path(storage, "storage")
    choice = EngineChoice(engine, address, folder)
    choice.check()
    files = as_files(user_files)
    load_parts(files)
    if isinstance(given, Path) and given.is_dir():
        if out is not None or seeds or only:
            raise UserError(
                "is the folder of a study, which is only read: it takes no out, seeds or only",
                topic="study",
                where=str(given),
                hint="Give the study file (TOML) to train.",
            )
        outcome = read_outcome(given)
    else:
        with signals_as_interrupt(), observed_study(observer) as on_study:
            outcome = run_study(
                given,
                out=out,
                seeds=seeds,
                jobs=jobs,
                only=only,
                user_files=files,
                engine=choice,
                observer=on_study,
            )
    write_comparison_report(outcome.folder, outcome)
    outcome.check_some_run_is_finished()
    return outcome


def sweep(study: AnyStudy, **options: Any) -> Outcome:
    """Like `compare`, with its options, for a study with a `grid` or `random` combinations."""
    from regard.studies.study import LoadedStudy

    load_parts(options.get("user_files", ()))
    if isinstance(study, Mapping):
        loaded = LoadedStudy.from_dictionary(study)
    else:
        loaded = LoadedStudy.load(as_path(study, "study"))
    if not loaded.study.grid and loaded.study.random is None:
        raise UserError(
            "there is nothing to sweep: neither [grid] nor [random]",
            topic="study",
            where=str(loaded.file),
            hint='Add [grid], for instance with "train.lr" = [1e-3, 3e-3].',
        )
    return compare(study, **options)


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
    `compare` collects and judges; where tuning trials, initial models or a planned look come first,
    the rest follows from them, and `plan` is called again.
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
