"""Run a study: allocate budgets, tune, train every variant with every seed, compare.

    runs/<study>/study.toml   plan.json   recipes/   <variant>/seed-0/ …   <variant>/tune/lr=0.001/
                 outcome.json   inspections/   report.html   report.md   tables.tex   charts/

Finished runs are kept: the same command resumes an interrupted study, and a study with additional
seeds trains only those. With planned looks (`verdicts/planned_looks.py`) it trains and judges look
by look.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import tomli_w

from regard.core.errors import UserError, did_you_mean
from regard.core.files import write_text
from regard.core.settings import read_settings, to_table
from regard.core.toml import flatten, read_toml
from regard.evaluation.metrics.metric import is_lower_better
from regard.runs.finish import now
from regard.runs.locking.lock import lock_run
from regard.runs.observer import SILENT, Observer
from regard.runs.results import MODEL
from regard.runs.run import Run
from regard.studies.collect import collect_outcome
from regard.studies.completed_runs import read_completed_run
from regard.studies.engines.choice import LOCAL, EngineChoice
from regard.studies.engines.efficiency import Efficiency
from regard.studies.engines.job import Engine, Job, JobResult
from regard.studies.engines.schedule import (
    Schedule,
    StudySchedule,
    UnfinishedJobsError,
    scheduled,
)
from regard.studies.initial_models import initial_model_remarks, prepare_initial_models
from regard.studies.inspections import store_inspections
from regard.studies.outcome import (
    Outcome,
    TrialOutcome,
    VariantOutcome,
    read_outcome,
    write_outcome,
)
from regard.studies.plan import PlannedVariant, plan
from regard.studies.probes import score_probes
from regard.studies.study import LoadedStudy, Study
from regard.studies.sweep import combinations
from regard.studies.verdicts.looks import UNREADABLE, add_look
from regard.studies.verdicts.planned_looks import PlannedLooks, check_plan_kept

NOT_SELECTED = "not selected by --only"
CHANGEABLE = ("seeds", "question", "probes")
"Of a study that has runs. A plan of looks is seeds too, and may only become a list."


def compare(
    study: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    seeds: Sequence[int] = (),
    jobs: int = 0,
    only: Sequence[str] = (),
    user_files: Sequence[str | Path] = (),
    engine: EngineChoice = LOCAL,
    observer: Observer = SILENT,
) -> Outcome:
    """Run a study file or dictionary. `jobs` runs in parallel; 0: one per CPU core."""
    engine.check()
    if isinstance(study, Mapping):
        loaded = LoadedStudy.from_dictionary(study, seeds=tuple(seeds))
    else:
        loaded = LoadedStudy.load(study, seeds=tuple(seeds))
    _check_only(loaded, only)
    home = engine.home(loaded.study.name, Path(out) if out is not None else None)
    given = out if out is not None or engine.storage is None else home
    files = tuple(map(Path, user_files))
    with (
        lock_run(home, "training"),
        engine.engine(
            slots=jobs, recipes=home / "recipes", user_files=files, observer=observer
        ) as chosen,
    ):
        _open(home, loaded)
        if not (home / "plan.json").exists():  # else most may be finished
            chosen.start(len(loaded.variants) * len(loaded.study.all_seeds))
        pool = Pool(home, chosen, tuple(only))
        command = _command(study, given, loaded.study, files)
        outcome = _compare(loaded, pool, command=command, observer=observer)
        score_probes(outcome, loaded.study.probes, home=home)
        store_inspections(outcome, loaded.study.probes, home=home)
        outcome.remarks += chosen.remarks
        outcome.efficiency = chosen.efficiency() or _former_efficiency(home)
        return write_outcome(home, outcome)


def schedule(
    study: str | Path,
    *,
    out: str | Path | None = None,
    seeds: Sequence[int] = (),
    user_files: Sequence[str | Path] = (),
    observer: Observer = SILENT,
) -> StudySchedule:
    """What is left to train of a study file, for another scheduler; nothing is trained."""
    loaded = LoadedStudy.load(study, seeds=tuple(seeds))
    home = Path(out) if out is not None else Path("runs") / loaded.study.name
    _open(home, loaded)
    files, recipes = tuple(map(Path, user_files)), home / "recipes"
    last = _command(study, out, loaded.study, files)
    try:
        _compare(loaded, Pool(home, Schedule(), ()), command=last, observer=observer)
    except UnfinishedJobsError as unfinished:
        left = [scheduled(job, recipes=recipes, user_files=files) for job in unfinished.jobs]
        job = unfinished.jobs[0]
        # Initial models stand beside the study, trials have the first seed, looks depend on those
        # before.
        is_tuning = bool(loaded.study.tune) and job.seed == loaded.study.all_seeds[0]
        is_last = job.folder.is_relative_to(home) and not is_tuning and not PlannedLooks.of(loaded)
        then = last if is_last else last.replace(" compare ", " plan ", 1)
        return StudySchedule(tuple(left), then)
    return StudySchedule((), last)


def _compare(loaded: LoadedStudy, pool: Pool, *, command: str, observer: Observer) -> Outcome:
    """Train and judge all seeds, or look by look until the study knows."""
    looks = PlannedLooks.of(loaded)
    if looks is None:
        outcome = _train_and_judge(loaded, pool, None, command=command, observer=observer)
        keep_looks(outcome, pool.home)
        return outcome
    while True:
        outcome = _train_and_judge(
            looks.at_this_look(loaded), pool, looks, command=command, observer=observer
        )
        goes_on = looks.take(outcome)
        keep_looks(outcome, pool.home)
        if not goes_on:
            return outcome
        if _looks_stored(pool.home) < looks.index:  # else a later one is in the file
            write_outcome(pool.home, outcome)


def _train_and_judge(
    loaded: LoadedStudy,
    pool: Pool,
    looks: PlannedLooks | None,
    *,
    command: str,
    observer: Observer,
) -> Outcome:
    """Every variant with the seeds of `loaded`: those of one look, if looks are planned."""
    home = pool.home
    initial_models = prepare_initial_models(loaded, home=home, run_jobs=pool.train)
    planned = plan(home, loaded, initial_models, looks=looks, observer=observer)
    outcome = run_planned(loaded, planned, pool, looks, command=command)
    outcome.remarks += initial_model_remarks(initial_models, loaded)
    return outcome


def run_planned(
    loaded: LoadedStudy,
    planned: Sequence[PlannedVariant],
    pool: Pool,
    looks: PlannedLooks | None,
    *,
    command: str,
) -> Outcome:
    """Tune and train what is planned with the seeds of `loaded`, and judge it."""
    home = pool.home
    variants = [
        VariantOutcome(variant.name, dict(variant.changes), operations=planned[n].operations)
        for n, variant in enumerate(loaded.variants)
    ]
    _tune(loaded, planned, variants, pool)
    untuned = {
        variant.name: f"all its tuning trials failed ({variant.trials[0].reason})"
        for variant in variants
        if variant.trials and not variant.chosen
    }
    trainings = [
        one.job(home, seed, tuned=variant.chosen)
        for seed in loaded.study.all_seeds  # seed by seed: an interrupted study has complete pairs
        for one, variant in zip(planned, variants, strict=True)
    ]
    results = pool.run([job for job in trainings if job.variant not in untuned])
    results += [JobResult(job, untuned[job.variant]) for job in trainings if job.variant in untuned]
    return collect_outcome(loaded, results, variants, home=home, command=command, looks=looks)


@dataclass(frozen=True)
class Pool:
    """The engine that trains a study's jobs, and which of them are selected."""

    home: Path
    engine: Engine
    only: tuple[str, ...]
    finished: dict[Path, JobResult] = field(default_factory=dict)
    "By folder: a later look asks for them again."

    def run(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Run the selected jobs; finished runs of variants that are not selected count too."""
        selected = [
            job
            for job in jobs
            if not self.only or job.variant in self.only or Run(job.folder).is_finished
        ]
        results = {result.job.folder: result for result in self.train(selected)}
        return [results.get(job.folder, JobResult(job, NOT_SELECTED)) for job in jobs]

    def train(self, jobs: Sequence[Job]) -> list[JobResult]:
        results = self.engine.run_jobs([job for job in jobs if job.folder not in self.finished])
        by_folder = self.finished | {result.job.folder: result for result in results}
        self.finished.update({result.job.folder: result for result in results if not result.reason})
        return [by_folder[job.folder] for job in jobs]


def _former_efficiency(home: Path) -> Efficiency | None:
    """Of the last call that trained something."""
    with suppress(UserError):
        return read_outcome(home).efficiency
    return None


def _check_only(loaded: LoadedStudy, only: Sequence[str]) -> None:
    names = [variant.name for variant in loaded.variants]
    for name in only:
        if name not in names:
            raise UserError(f"--only {name}: no such variant{did_you_mean(name, names)}")


def _open(home: Path, loaded: LoadedStudy) -> None:
    """Create the study's folder, or check that it belongs to this study (seeds may differ)."""
    file, table = home / "study.toml", to_table(loaded.study)
    if home.exists() and not file.is_file():
        raise UserError(
            f"{home} exists and is no study: it has no study.toml",
            topic="study",
            hint="Choose another --out, or another name in the study.",
        )
    if file.is_file():
        read = read_toml(file, topic="study")
        stored = read_settings(Study, read.table, locate=read.locate)
        before, now = flatten(to_table(stored)), flatten(table)
        differ = [key for key in sorted(before.keys() | now) if before.get(key) != now.get(key)]
        changed = [key for key in differ if key.partition(".")[0] not in CHANGEABLE]
        has_runs = any(home.glob("*/**/seed-*/"))
        if has_runs:
            check_plan_kept(stored.plan, loaded.study.plan, home=home)
        if changed and has_runs:
            raise UserError(
                f"{home} belongs to another study ({', '.join(changed[:3])} differ)",
                topic="study",
                hint="Give --out ANOTHER_FOLDER, or delete it.",
            )
        if changed:  # nothing was trained yet: the study file was corrected
            (home / "plan.json").unlink(missing_ok=True)
    (home / "recipes").mkdir(parents=True, exist_ok=True)
    write_text(file, tomli_w.dumps(table))


def _tune(
    loaded: LoadedStudy,
    planned: Sequence[PlannedVariant],
    variants: Sequence[VariantOutcome],
    pool: Pool,
) -> None:
    """Fill in the trials of each variant and the values that are best on dev; every variant tries
    the same values."""
    study = loaded.study
    candidates = combinations(study.tune)
    seed = study.all_seeds[0]
    jobs = [one.job(pool.home, seed, tuned=values) for one in planned for values in candidates]
    results = iter(pool.run(jobs))
    score_name = study.decides.partition(".")[2]
    best = min if is_lower_better(score_name) else max
    for variant in variants:
        trials = [_trial(values, next(results), f"dev.{score_name}") for values in candidates]
        scored = [(trial.score, trial.values) for trial in trials if trial.score is not None]
        variant.trials = trials
        if scored:
            # Of equal scores the first trial is chosen.
            variant.chosen = best(scored, key=itemgetter(0))[1]


def keep_looks(outcome: Outcome, home: Path) -> None:
    """Keep what the study was judged before, at fewer seeds."""
    before = None
    if (home / "outcome.json").exists():
        try:
            before = read_outcome(home)
        except UserError as problem:  # damaged or of another schema: the verdicts are still made
            outcome.remarks.append(f"{UNREADABLE} ({problem.what})")
    add_look(outcome, before, date=now())


def _trial(values: Mapping[str, Any], result: JobResult, score_key: str) -> TrialOutcome:
    run, reason = read_completed_run(result)
    split, _, score_name = score_key.partition(".")
    key = (split, score_name, MODEL)
    rows = run.results.estimates if run is not None else ()
    value = next((row.value for row in rows if (row.split, row.metric, row.of) == key), None)
    return TrialOutcome(values, value, reason)


def _looks_stored(home: Path) -> int:
    """How many looks of the plan the stored outcome has taken."""
    with suppress(UserError):
        stored = read_outcome(home).plan
        return stored.taken if stored is not None else 0
    return 0


def _command(
    study: str | Path | Mapping[str, Any],
    out: str | Path | None,
    settings: Study,
    user_files: Sequence[Path],
) -> str:
    """The command line that reproduces the study."""
    if isinstance(study, Mapping):
        return "regard.compare(…)"
    words = ["regard", "compare", str(study)]
    if settings.plan is None:
        words += ["--seeds", ",".join(map(str, settings.all_seeds))]
    words += ["--out", str(out)] if out is not None else []
    return shlex.join([*words, *(word for file in user_files for word in ("--with", str(file)))])
