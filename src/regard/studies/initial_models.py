"""Where the trainings of a study start from: nothing, a run, or a recipe that is run first.

A recipe to start from is run before the study, where a training of its own would find it too
(`runs/pretrain-1f3c09ab`), and once: all variants and seeds share it, so that seeds tell nothing of
another pretraining. With `pretrain = "each seed"` every seed has a pretraining with that seed,
which the variants share. Either way the report says so.
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
from regard.studies.engines.local import Job, JobResult
from regard.studies.study import LoadedStudy

RunJobs = Callable[[Sequence[Job]], list[JobResult]]
Starts = Mapping[str, Mapping[int, InitialModel]]
"By variant and seed; a variant that starts from nothing is not in it."


@dataclass(frozen=True)
class _Made:
    """Recipes to start from, run as jobs of the study."""

    runs: Path
    run_jobs: RunJobs

    def start(self, recipe: Recipe) -> InitialModel | None:
        return find_initial_model(recipe, runs=self.runs, run_recipe=self._run)

    def _run(self, recipe: Recipe, folder: Path) -> Run:
        resolved = inherit_settings(
            recipe, self.start(recipe)
        )  # what it starts from itself is there now
        # The space keeps it apart from every variant.
        job = Job(f"start {recipe.name}", recipe.train.seed, resolved, folder)
        [ended] = self.run_jobs([job])
        if ended.reason:
            raise UserError(
                f"the run to start from, {folder}, could not be made: {ended.reason}",
                topic="study",
            )
        return Run(folder)


def make_starts(loaded: LoadedStudy, *, home: Path, run_jobs: RunJobs) -> Starts:
    """The starting point of each variant and seed; what is not there yet is trained."""
    made = _Made(home.parent, run_jobs)
    known: dict[str, InitialModel | None] = {}
    starts: dict[str, dict[int, InitialModel]] = {}
    for variant in loaded.variants:
        if variant.recipe.start is None:
            continue
        for seed in loaded.study.seeds:
            place = variant.recipe.start
            if loaded.study.pretrain == "each seed" and place.endswith(".toml"):
                place = str(_of_seed(Path(place), seed, folder=home / "recipes"))
            if place not in known:
                known[place] = made.start(variant.recipe.model_copy(update={"start": place}))
            if found := known[place]:
                starts.setdefault(variant.name, {})[seed] = found
    return starts


def _of_seed(file: Path, seed: int, *, folder: Path) -> Path:
    """A copy of a recipe that differs in its seed alone, and so does what it starts from."""
    read = read_toml(file, topic="recipe")
    read.table.setdefault("name", file.stem)
    first = Recipe.load(file).start
    if first is not None:
        before = _of_seed(Path(first), seed, folder=folder) if first.endswith(".toml") else first
        read.change("start", str(before), by=str(file))
    read.change("train.seed", seed, by=str(file))
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", str(file.with_suffix("")))
    copy = folder / f"{plain} of seed {seed}.toml"
    write_text(copy, tomli_w.dumps(read.table))
    return copy


def said_of(starts: Starts, loaded: LoadedStudy) -> list[str]:
    """Who shares a pretraining, what that keeps the seeds from telling, and what an import said."""
    sharing: dict[tuple[str, ...], list[str]] = {}
    for name, by_seed in starts.items():
        places = tuple(dict.fromkeys(start.named for start in by_seed.values()))
        sharing.setdefault(places, []).append(name)
    several = len(loaded.study.seeds) > 1
    told = []
    for places, names in sharing.items():
        who = "every variant" if len(names) == len(loaded.variants) > 1 else join_words(names)
        verb = "starts" if len(names) == 1 or who == "every variant" else "start"
        if len(places) == 1:
            alike = (
                ", the same for all seeds: they tell how far training from there varies, not how "
                "far another pretraining would move it"
            )
            told.append(f"{who} {verb} from {places[0]}{alike if several else ''}")
        else:
            told.append(f"{who} {verb} with each seed from a pretraining with that seed")
    every = (start for by_seed in starts.values() for start in by_seed.values())
    return told + list(dict.fromkeys(remark for start in every for remark in start.remarks))
