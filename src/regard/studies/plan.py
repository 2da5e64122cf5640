"""What a study trains: every variant's recipe with its share of the budget, worked out once.

    runs/<study>/plan.json      what was asked for, the recipe of each variant, what an update costs

A study that goes on keeps its plan, because times are not the same twice. Where a recipe has
changed since, it is another study, and says so: finished trainings would not be what it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.files import read_json, write_json
from regard.core.toml import TomlTable
from regard.runs.models.init_from import inherit_settings
from regard.runs.observer import Observer
from regard.runs.recipe import Recipe
from regard.studies.budget import share_out
from regard.studies.engines.local import Job
from regard.studies.initial_models import Starts
from regard.studies.study import LoadedStudy, Pretrain, Variant
from regard.studies.sweep import said

PLAN_SCHEMA = 1


@dataclass(frozen=True)
class PlannedVariant:
    """A variant as it is trained: its recipe before tuning and seeds, and what an update costs."""

    name: str
    recipe: Recipe
    operations: float
    starts: Mapping[int, str]
    "Where each seed starts from; empty where from nothing."

    def job(self, home: Path, seed: int, *, tuned: Mapping[str, Any]) -> Job:
        """The training with one seed; with a tuned value it lives under that value, so that a
        trial is not trained twice."""
        table = TomlTable(home / "plan.json", self.recipe.to_table(), {})
        for key, value in {**tuned, "train.seed": seed}.items():
            table.change(key, value, by=f"variant {self.name}")
        if seed in self.starts:
            table.change("start", self.starts[seed], by=f"variant {self.name}")
        trial = said(tuned)
        folder = home / self.name / (f"tune/{trial}" if trial else "") / f"seed-{seed}"
        return Job(self.name, seed, Recipe.from_table(table.table), folder, trial)


def plan(
    home: Path, loaded: LoadedStudy, starts: Starts, *, watch: Observer
) -> list[PlannedVariant]:
    """The plan that is kept, or one worked out now."""
    file = home / "plan.json"
    pretrain = loaded.study.pretrain
    asked = [_asked(variant, starts, pretrain=pretrain) for variant in loaded.variants]
    kept = _kept(file, [variant.name for variant in loaded.variants])
    if kept and all("asked" in one for one in kept):
        for now, one in zip(asked, kept, strict=True):
            _check_same(now, Recipe.from_table(one["asked"]), home=home)
        recipes = [(Recipe.from_table(one["recipe"]), one["operations"]) for one in kept]
    else:
        ready = tuple(_ready(variant, starts) for variant in loaded.variants)
        equal = share_out(replace(loaded, variants=ready), watch=watch)
        recipes = [(one.variant.recipe, one.operations) for one in equal]
        told = [
            {
                "name": variant.name,
                "asked": what.to_table(),
                "recipe": one.to_table(),
                "operations": cost,
            }
            for variant, what, (one, cost) in zip(loaded.variants, asked, recipes, strict=True)
        ]
        write_json(file, {"schema": PLAN_SCHEMA, "variants": told})
    return [
        PlannedVariant(variant.name, recipe, operations, _named(variant, starts))
        for variant, (recipe, operations) in zip(loaded.variants, recipes, strict=True)
    ]


def _asked(variant: Variant, starts: Starts, *, pretrain: Pretrain) -> Recipe:
    """What the study's files say of a variant; a start by what it is, not by where it lies."""
    first = next(iter(starts.get(variant.name, {}).values()), None)
    path, start = variant.recipe.start, None
    if first is not None and path is not None:
        # Each seed's own is another run; what they have in common is their recipe.
        of_each = pretrain == "each seed" and path.endswith(".toml")
        start = Recipe.load(path).fingerprint if of_each else first.identity
    return variant.recipe.model_copy(update={"start": start})


def _ready(variant: Variant, starts: Starts) -> Variant:
    """With the model of its start, and on one thread, as it will be trained."""
    first = next(iter(starts.get(variant.name, {}).values()), None)
    recipe = variant.recipe
    if first is not None:
        recipe = inherit_settings(recipe.model_copy(update={"start": first.named}), first)
    train = recipe.train.model_copy(update={"threads": 1})
    return replace(variant, recipe=recipe.model_copy(update={"train": train}))


def _named(variant: Variant, starts: Starts) -> dict[int, str]:
    return {seed: start.named for seed, start in starts.get(variant.name, {}).items()}


def _kept(file: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    kept = read_json(file, schema=PLAN_SCHEMA).get("variants")
    if isinstance(kept, list) and all(isinstance(one, dict) for one in kept):
        whole = all({"recipe", "operations"} <= one.keys() for one in kept)
        if whole and [one.get("name") for one in kept] == list(names):
            return kept
    raise UserError(
        f"{file} is damaged: it does not say what each variant trains",
        topic="study",
        hint="Delete it, and it is worked out anew; finished trainings are kept.",
    )


def _check_same(now: Recipe, then: Recipe, *, home: Path) -> None:
    """Refuse to go on with trainings that the study's recipes no longer ask for."""
    differences = now.differences(then)
    if differences:
        raise UserError(
            f"the recipe of variant {now.name} has changed since {home} was begun "
            f"({'; '.join(differences[:3])})",
            topic="study",
            hint="Change it back, give --out ANOTHER_FOLDER, or delete that folder.",
        )
