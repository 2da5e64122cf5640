"""Run a study: share out the budget, tune, train every variant with every seed, judge, report.

    runs/<study>/study.toml   plan.json   recipes/   <variant>/seed-0/ …   <variant>/tune/lr=0.001/
                 outcome.json   report.html   report.md   tables.tex   charts/

What is finished is not run again: a study that was stopped goes on with the same command, and one
with more seeds than before trains only those.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from regard.errors import UserError, did_you_mean
from regard.experiment.watch import SILENT, Watch
from regard.files import read_json, write_json, write_text
from regard.recipe import Recipe
from regard.settings import table_of
from regard.study.budget import share_out
from regard.study.gather import gather
from regard.study.jobs import Ended, Job, OnJob, run_jobs
from regard.study.outcome import Outcome, VariantOutcome
from regard.study.probes import probe
from regard.study.record import MODEL
from regard.study.study import LoadedStudy
from regard.study.usable import read_usable
from regard.toml_tables import flat, read_toml

PLAN_SCHEMA = 1
NOT_ASKED_FOR = "not asked for: --only left it out"


@dataclass(frozen=True)
class Planned:
    """A variant as it is trained: its recipe before tuning and seeds, and what an update costs."""

    name: str
    recipe: Recipe
    operations: float


def compare(
    path: str | Path,
    *,
    out: str | Path | None = None,
    seeds: Sequence[int] = (),
    jobs: int = 0,
    only: Sequence[str] = (),
    own_files: Sequence[Path] = (),
    on_job: OnJob = lambda what, job, word: None,
    watch: Watch = SILENT,
) -> tuple[Path, Outcome]:
    """Run a study file; its folder, and what it found."""
    loaded = LoadedStudy.load(path, seeds=tuple(seeds))
    _check_only(loaded, only)
    home = Path(out) if out is not None else Path("runs") / loaded.study.name
    _open(home, loaded)
    planned = _plan(home, loaded, watch)
    variants = [
        VariantOutcome(variant.name, dict(variant.changes), operations=planned[n].operations)
        for n, variant in enumerate(loaded.variants)
    ]
    asked = [one for one in planned if not only or one.name in only]
    pool = _Pool(home, jobs or os.cpu_count() or 1, tuple(own_files), on_job)
    chosen = _tune(loaded, asked, variants, pool)
    finals = [
        _job(home, one, seed, changes=chosen[one.name], tuned=bool(loaded.study.tune))
        for seed in loaded.study.seeds  # seed by seed: a study that is stopped has whole pairs
        for one in asked
    ]
    ended = pool.run(finals)
    ended += [
        Ended(_job(home, one, seed, changes={}, tuned=False), NOT_ASKED_FOR)
        for one in planned
        if one not in asked
        for seed in loaded.study.seeds
    ]
    outcome = gather(loaded, ended, variants, home=home, command=_command(path, out, loaded))
    probe(outcome, loaded.study.probes, home=home)
    write_json(home / "outcome.json", outcome.as_dict())
    return home, outcome


@dataclass(frozen=True)
class _Pool:
    home: Path
    at_once: int
    own_files: tuple[Path, ...]
    on_job: OnJob

    def run(self, jobs: Sequence[Job]) -> list[Ended]:
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
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._=,+-]*", name):
            raise UserError(
                f"variant {name!r} names a folder: use letters, digits and . _ = , + -",
                topic="study",
                where=str(loaded.file),
            )


def _open(home: Path, loaded: LoadedStudy) -> None:
    """The study's folder, new or of the same study; more or fewer seeds are the same study."""
    file, table = home / "study.toml", table_of(loaded.study)
    if home.exists() and not file.is_file():
        raise UserError(
            f"{home} exists and is no study: it has no study.toml",
            topic="study",
            mend="Choose another --out, or another name in the study.",
        )
    if file.is_file():
        before = flat(read_toml(file, topic="study").table)
        now = flat(table)
        differ = [key for key in sorted(before.keys() | now) if before.get(key) != now.get(key)]
        if any(key not in ("seeds", "question", "probes") for key in differ):
            raise UserError(
                f"{home} was begun as another study ({', '.join(differ[:3])} differ)",
                topic="study",
                mend="Give --out ANOTHER_FOLDER, or delete it.",
            )
    (home / "recipes").mkdir(parents=True, exist_ok=True)
    write_text(file, tomli_w.dumps(table))


def _plan(home: Path, loaded: LoadedStudy, watch: Watch) -> list[Planned]:
    """What every variant is trained with; worked out once, because times are not the same twice."""
    file = home / "plan.json"
    names = [variant.name for variant in loaded.variants]
    if file.is_file():
        kept = read_json(file, schema=PLAN_SCHEMA)["variants"]
        if [one["name"] for one in kept] == names:
            return [
                Planned(one["name"], Recipe.from_table(one["recipe"]), one["operations"])
                for one in kept
            ]
    planned = [
        Planned(equal.variant.name, _one_thread(equal.variant.recipe), equal.operations)
        for equal in share_out(loaded, watch=watch)
    ]
    told = [
        {"name": one.name, "recipe": one.recipe.to_table(), "operations": one.operations}
        for one in planned
    ]
    write_json(file, {"schema": PLAN_SCHEMA, "variants": told})
    return planned


def _one_thread(recipe: Recipe) -> Recipe:
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"threads": 1})})


def _tune(
    loaded: LoadedStudy,
    planned: Sequence[Planned],
    variants: Sequence[VariantOutcome],
    pool: _Pool,
) -> dict[str, dict[str, Any]]:
    """For each variant the values that did best on dev; every variant tries the same ones."""
    study = loaded.study
    chosen: dict[str, dict[str, Any]] = {one.name: {} for one in planned}
    if not study.tune:
        return chosen
    tried = [
        dict(zip(study.tune, values, strict=True))
        for values in itertools.product(*study.tune.values())
    ]
    seed = study.seeds[0]
    trainings = [
        _job(pool.home, one, seed, changes=each, tuned=True) for one in planned for each in tried
    ]
    ended = iter(pool.run(trainings))
    figure = f"dev.{study.decides.partition('.')[2]}"
    for one in planned:
        trials = [{**each, **_tried(next(ended), figure)} for each in tried]
        outcome = next(variant for variant in variants if variant.name == one.name)
        outcome.trials = trials
        usable = [trial for trial in trials if trial[figure] is not None]
        if usable:
            best = min(usable, key=lambda trial: trial[figure])
            chosen[one.name] = {key: best[key] for key in study.tune}
            outcome.chosen = chosen[one.name]
    return chosen


def _tried(ended: Ended, figure: str) -> dict[str, Any]:
    found, reason = read_usable(ended)
    part, _, metric = figure.partition(".")
    wanted = (part, metric, MODEL)
    rows = found.figures.figures if found is not None else ()
    value = next((row.value for row in rows if (row.part, row.metric, row.of) == wanted), None)
    return {figure: value, "reason": reason}


def _job(home: Path, one: Planned, seed: int, *, changes: Mapping[str, Any], tuned: bool) -> Job:
    table = one.recipe.to_table()
    for key, value in {**changes, "train.seed": seed}.items():
        *path, last = key.split(".")
        inner = table
        for step in path:
            inner = inner.setdefault(step, {})
        inner[last] = value
    trial = ",".join(f"{key.rpartition('.')[2]}={value}" for key, value in changes.items())
    # A training with a tuned value lives under that value, so that a trial is not trained twice.
    folder = home / one.name / (f"tune/{trial}" if tuned and trial else "") / f"seed-{seed}"
    return Job(one.name, seed, Recipe.from_table(table), folder, trial)


def _command(path: str | Path, out: str | Path | None, loaded: LoadedStudy) -> str:
    words = ["regard", "compare", str(path), "--seeds", ",".join(map(str, loaded.study.seeds))]
    return " ".join([*words, *(["--out", str(out)] if out is not None else [])])
