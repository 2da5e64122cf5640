"""Run a study: share out the budget, tune, train every variant with every seed, judge, report.

    runs/<study>/study.toml   plan.json   recipes/   <variant>/seed-0/ …   <variant>/tune/lr=0.001/
                 outcome.json   inspections/   report.html   report.md   tables.tex   charts/

What is finished is not run again: a study that was stopped goes on with the same command, and one
with more seeds than before trains only those.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from regard.core.errors import UserError, did_you_mean
from regard.core.files import write_json, write_text
from regard.core.settings import read_settings, to_table
from regard.core.toml import flatten, read_toml
from regard.evaluation.metrics.metric import LOWER_IS_BETTER
from regard.runs.archive.record import MODEL
from regard.runs.observer import SILENT, Observer
from regard.runs.run import Run
from regard.studies.collect import collect_outcome
from regard.studies.completed_runs import read_completed_run
from regard.studies.engines.local import Job, JobResult, OnJob, run_jobs
from regard.studies.initial_models import make_starts, said_of
from regard.studies.inspections import store_inspections
from regard.studies.outcome import Outcome, VariantOutcome
from regard.studies.plan import PlannedVariant, plan
from regard.studies.probes import probe
from regard.studies.study import LoadedStudy, Study
from regard.studies.sweep import combinations

NOT_ASKED_FOR = "not asked for: --only left it out"


def compare(
    path: str | Path,
    *,
    out: str | Path | None = None,
    seeds: Sequence[int] = (),
    jobs: int = 0,
    only: Sequence[str] = (),
    own_files: Sequence[Path] = (),
    on_job: OnJob = lambda what, job, word: None,
    watch: Observer = SILENT,
) -> tuple[Path, Outcome]:
    """Run a study file; its folder, and what it found."""
    loaded = LoadedStudy.load(path, seeds=tuple(seeds))
    _check_only(loaded, only)
    home = Path(out) if out is not None else Path("runs") / loaded.study.name
    _open(home, loaded)
    pool = _Pool(home, jobs or os.cpu_count() or 1, tuple(only), tuple(own_files), on_job)
    starts = make_starts(loaded, home=home, run_jobs=pool.train)
    planned = plan(home, loaded, starts, watch=watch)
    variants = [
        VariantOutcome(variant.name, dict(variant.changes), operations=planned[n].operations)
        for n, variant in enumerate(loaded.variants)
    ]
    chosen, untuned = _tune(loaded, planned, variants, pool)
    trainings = [
        one.job(home, seed, tuned=chosen.get(one.name, {}))
        for seed in loaded.study.seeds  # seed by seed: a study that is stopped has whole pairs
        for one in planned
    ]
    ended = pool.run([job for job in trainings if job.variant not in untuned])
    ended += [JobResult(job, untuned[job.variant]) for job in trainings if job.variant in untuned]
    command = _command(path, out, loaded.study.seeds, own_files)
    outcome = collect_outcome(loaded, ended, variants, home=home, command=command)
    outcome.remarks += said_of(starts, loaded)
    probe(outcome, loaded.study.probes, home=home)
    store_inspections(outcome, loaded.study.probes, home=home)
    write_json(home / "outcome.json", outcome.as_dict())
    return home, outcome


@dataclass(frozen=True)
class _Pool:
    home: Path
    at_once: int
    only: tuple[str, ...]
    own_files: tuple[Path, ...]
    on_job: OnJob

    def run(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Of variants that were not asked for, what is finished already counts."""
        wanted = [
            job
            for job in jobs
            if not self.only or job.variant in self.only or Run(job.folder).is_finished
        ]
        ended = {one.job.folder: one for one in self.train(wanted)}
        return [ended.get(job.folder, JobResult(job, NOT_ASKED_FOR)) for job in jobs]

    def train(self, jobs: Sequence[Job]) -> list[JobResult]:
        return run_jobs(
            jobs,
            at_once=self.at_once,
            recipes=self.home / "recipes",
            own_files=self.own_files,
            on_job=self.on_job,
        )


def _check_only(loaded: LoadedStudy, only: Sequence[str]) -> None:
    names = [variant.name for variant in loaded.variants]
    for name in only:
        if name not in names:
            raise UserError(f"--only {name}: no such variant{did_you_mean(name, names)}")


def _open(home: Path, loaded: LoadedStudy) -> None:
    """The study's folder, new or of the same study; more or fewer seeds are the same study."""
    file, table = home / "study.toml", to_table(loaded.study)
    if home.exists() and not file.is_file():
        raise UserError(
            f"{home} exists and is no study: it has no study.toml",
            topic="study",
            hint="Choose another --out, or another name in the study.",
        )
    if file.is_file():
        read = read_toml(file, topic="study")
        before = flatten(to_table(read_settings(Study, read.table, locate=read.locate)))
        now = flatten(table)
        differ = [key for key in sorted(before.keys() | now) if before.get(key) != now.get(key)]
        changed = [key for key in differ if key not in ("seeds", "question", "probes")]
        if changed and any(home.glob("*/**/seed-*/")):
            raise UserError(
                f"{home} was begun as another study ({', '.join(changed[:3])} differ)",
                topic="study",
                hint="Give --out ANOTHER_FOLDER, or delete it.",
            )
        if changed:  # nothing was trained yet: a mistake was mended
            (home / "plan.json").unlink(missing_ok=True)
    (home / "recipes").mkdir(parents=True, exist_ok=True)
    write_text(file, tomli_w.dumps(table))


def _tune(
    loaded: LoadedStudy,
    planned: Sequence[PlannedVariant],
    variants: Sequence[VariantOutcome],
    pool: _Pool,
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """For each variant the values that did best on dev, or why there are none; every variant
    tries the same ones."""
    study = loaded.study
    tried = combinations(study.tune)
    seed = study.seeds[0]
    ended = iter(pool.run([one.job(pool.home, seed, tuned=e) for one in planned for e in tried]))
    figure = f"dev.{study.decides.partition('.')[2]}"
    chosen: dict[str, dict[str, Any]] = {}
    untuned: dict[str, str] = {}
    for one in planned:
        trials = [{**each, **_tried(next(ended), figure)} for each in tried]
        outcome = next(variant for variant in variants if variant.name == one.name)
        outcome.trials = trials
        usable = [trial for trial in trials if trial[figure] is not None]
        if usable:
            least = study.decides.partition(".")[2] in LOWER_IS_BETTER
            best = (min if least else max)(usable, key=lambda trial: trial[figure])
            outcome.chosen = chosen[one.name] = {key: best[key] for key in study.tune}
        elif trials:
            untuned[one.name] = f"no tuning trial of it can be used ({trials[0]['reason']})"
    return chosen, untuned


def _tried(ended: JobResult, figure: str) -> dict[str, Any]:
    found, reason = read_completed_run(ended)
    part, _, metric = figure.partition(".")
    wanted = (part, metric, MODEL)
    rows = found.figures.figures if found is not None else ()
    value = next((row.value for row in rows if (row.part, row.metric, row.of) == wanted), None)
    return {figure: value, "reason": reason}


def _command(
    path: str | Path, out: str | Path | None, seeds: Sequence[int], own_files: Sequence[Path]
) -> str:
    """What a person types to make it again."""
    words = ["regard", "compare", str(path), "--seeds", ",".join(map(str, seeds))]
    words += ["--out", str(out)] if out is not None else []
    return shlex.join([*words, *(word for file in own_files for word in ("--with", str(file)))])
