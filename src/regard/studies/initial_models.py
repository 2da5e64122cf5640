"""Initial models of a study's runs: none, a checkpoint, or a recipe that is trained first.

An `init_from` recipe is trained once before the study, in the folder a single `regard train` would
use (`runs/pretrain-1f3c09ab`). All variants and seeds share it, so the spread over seeds excludes
the variance of pretraining. With `pretrain = "each seed"` there is one pretraining per seed, shared
by the variants. The report says which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from regard.core.errors import UserError
from regard.core.files import write_text
from regard.core.toml import read_toml
from regard.evaluation.formatting import join_words
from regard.runs.models.init_from import InitialModel, find_initial_model, inherit_settings
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.studies.engines.job import Job, JobResult
from regard.studies.engines.schedule import UnfinishedJobsError
from regard.studies.study import LoadedStudy

RunJobs = Callable[[Sequence[Job]], list[JobResult]]
InitialModels = Mapping[str, Mapping[int, InitialModel]]
"By variant and seed; variants trained from scratch are absent."


@dataclass(frozen=True)
class _Pretraining:
    """Trains `init_from` recipes as jobs of the study."""

    runs: Path
    run_jobs: RunJobs

    def initial_model(self, recipe: Recipe) -> InitialModel | None:
        return find_initial_model(recipe, runs=self.runs, run_recipe=self._run)

    def _run(self, recipe: Recipe, folder: Path) -> Run:
        # Recursive: the recipe may itself have an `init_from`.
        resolved = inherit_settings(recipe, self.initial_model(recipe))
        # Names of variants have no space: no clash.
        job = Job(f"init {recipe.name}", recipe.train.seed, resolved, folder)
        [result] = self.run_jobs([job])
        if result.reason:
            raise UserError(
                f"training the initial model {folder} failed: {result.reason}", topic="study"
            )
        return Run(folder)


def prepare_initial_models(loaded: LoadedStudy, *, home: Path, run_jobs: RunJobs) -> InitialModels:
    """The initial model of each variant and seed; trains those that do not exist yet."""
    pretraining = _Pretraining(home.parent, run_jobs)
    cache: dict[str, InitialModel | None] = {}
    initial_models: dict[str, dict[int, InitialModel]] = {}
    left: list[Job] = []
    for variant in loaded.variants:
        if variant.recipe.init_from is None:
            continue
        for seed in loaded.study.all_seeds:
            path = variant.recipe.init_from
            if loaded.study.pretrain == "each seed" and path.endswith(".toml"):
                path = str(_copy_with_seed(Path(path), seed, folder=home / "recipes"))
            if path not in cache:
                recipe = variant.recipe.model_copy(update={"init_from": path})
                try:
                    cache[path] = pretraining.initial_model(recipe)
                except UnfinishedJobsError as unfinished:  # of a schedule: the others are left too
                    cache[path] = None
                    left += unfinished.jobs
            if initial_model := cache[path]:
                initial_models.setdefault(variant.name, {})[seed] = initial_model
    if left:
        raise UnfinishedJobsError(left)
    return initial_models


def _copy_with_seed(file: Path, seed: int, *, folder: Path) -> Path:
    """A copy of the recipe, and of its `init_from` recipes, with another seed."""
    read = read_toml(file, topic="recipe")
    read.table.setdefault("name", file.stem)
    path = Recipe.load(file).init_from
    if path is not None:
        base = _copy_with_seed(Path(path), seed, folder=folder) if path.endswith(".toml") else path
        read.change("init_from", str(base), by=str(file))
    read.change("train.seed", seed, by=str(file))
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", str(file.with_suffix("")))
    copy = folder / f"{stem} of seed {seed}.toml"
    write_text(copy, tomli_w.dumps(read.table))
    return copy


def initial_model_remarks(initial_models: InitialModels, loaded: LoadedStudy) -> list[str]:
    """Which variants share a pretraining, what the seeds then do not cover, remarks of imports."""
    sharing: dict[tuple[str, ...], list[str]] = {}
    for name, by_seed in initial_models.items():
        origins = tuple(dict.fromkeys(model.name for model in by_seed.values()))
        sharing.setdefault(origins, []).append(name)
    several = len(loaded.study.all_seeds) > 1
    remarks = []
    for origins, names in sharing.items():
        who = "every variant" if len(names) == len(loaded.variants) > 1 else join_words(names)
        verb = "starts" if len(names) == 1 or who == "every variant" else "start"
        if len(origins) == 1:
            shared = (
                ", the same for all seeds: the spread over seeds does not include the variance of "
                "pretraining"
            )
            remarks.append(f"{who} {verb} from {origins[0]}{shared if several else ''}")
        else:
            remarks.append(f"{who} {verb} with each seed from a pretraining with that seed")
    every = (model for by_seed in initial_models.values() for model in by_seed.values())
    return remarks + list(dict.fromkeys(remark for model in every for remark in model.remarks))
