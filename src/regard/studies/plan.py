"""The plan of a study: every variant's recipe with its budget, computed once.

    runs/<study>/plan.json   per variant: the recipe as requested, as trained, and FLOPs per update

A resumed study keeps its plan, because timings are not reproducible. If a recipe has changed since,
the study is refused: its finished runs would no longer match it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regard.core.errors import UserError
from regard.core.files import read_json
from regard.core.json_records import JsonRecord, restore_record, write_record
from regard.core.toml import TomlTable
from regard.runs.models.init_from import inherit_settings
from regard.runs.observer import Observer
from regard.runs.recipe import Recipe
from regard.studies.budget import allocate_budgets
from regard.studies.engines.job import Job
from regard.studies.initial_models import InitialModels
from regard.studies.study import LoadedStudy, Pretrain, Variant
from regard.studies.sweep import format_changes
from regard.studies.verdicts.planned_looks import LooksRecord, PlannedLooks

PLAN_SCHEMA = 2


@dataclass(frozen=True)
class PlannedVariant:
    """A variant ready for training: its recipe before tuning and seeds, and FLOPs per update."""

    name: str
    recipe: Recipe
    operations: float
    init_from: Mapping[int, str]
    "The initial model of each seed; empty if trained from scratch."

    def job(self, home: Path, seed: int, *, tuned: Mapping[str, Any]) -> Job:
        """The training with one seed; tuned values name its folder, so that the chosen trial is
        not trained twice."""
        table = TomlTable(home / "plan.json", self.recipe.to_table(), {})
        for key, value in {**tuned, "train.seed": seed}.items():
            table.change(key, value, by=f"variant {self.name}")
        if seed in self.init_from:
            table.change("init_from", self.init_from[seed], by=f"variant {self.name}")
        trial = format_changes(tuned)
        folder = home / self.name / (f"tune/{trial}" if trial else "") / f"seed-{seed}"
        return Job(self.name, seed, Recipe.from_table(table.table), folder, trial)


class StoredVariant(JsonRecord):
    """A variant in plan.json."""

    name: str
    requested: Mapping[str, Any]
    "The recipe as the study's files say it."
    recipe: Mapping[str, Any]
    "The recipe as it is trained, before tuning and seeds."
    operations: float
    "FLOPs per update."


class StoredPlan(JsonRecord):
    """All of plan.json."""

    variants: tuple[StoredVariant, ...]
    looks: LooksRecord | None = None
    "As planned; how far the study came is in outcome.json."


def plan(
    home: Path,
    loaded: LoadedStudy,
    initial_models: InitialModels,
    *,
    observer: Observer,
    looks: PlannedLooks | None = None,
) -> list[PlannedVariant]:
    """Read the stored plan, or compute and store it."""
    file = home / "plan.json"
    pretrain = loaded.study.pretrain
    requested = [
        _requested_recipe(variant, initial_models, pretrain=pretrain) for variant in loaded.variants
    ]
    if file.is_file():
        stored = _read_plan(file, [variant.name for variant in loaded.variants])
        for now, variant in zip(requested, stored.variants, strict=True):
            _check_same(now, Recipe.from_table(variant.requested), home=home)
    else:
        resolved = tuple(_resolved(variant, initial_models) for variant in loaded.variants)
        budgets = allocate_budgets(replace(loaded, variants=resolved), observer=observer)
        stored = StoredPlan(
            variants=tuple(
                StoredVariant(
                    name=budget.variant.name,
                    requested=before.to_table(),
                    recipe=budget.variant.recipe.to_table(),
                    operations=budget.operations,
                )
                for before, budget in zip(requested, budgets, strict=True)
            )
        )
    record = looks.record if looks else None
    if not file.is_file() or record != stored.looks:  # a plan of looks may become a list of seeds
        write_record(file, stored.model_copy(update={"looks": record}), schema=PLAN_SCHEMA)
    return [
        PlannedVariant(
            one.name,
            Recipe.from_table(one.recipe),
            one.operations,
            {seed: model.name for seed, model in initial_models.get(one.name, {}).items()},
        )
        for one in stored.variants
    ]


def stored_plan(home: Path, names: Sequence[str]) -> list[PlannedVariant]:
    """What was planned, from plan.json alone: for those who look at a study that others run."""
    stored = _read_plan(home / "plan.json", names)
    return [
        PlannedVariant(one.name, Recipe.from_table(one.recipe), one.operations, {})
        for one in stored.variants
    ]


def _requested_recipe(
    variant: Variant, initial_models: InitialModels, *, pretrain: Pretrain
) -> Recipe:
    """The variant's recipe as the study's files say it; the initial model by content, not path."""
    first = next(iter(initial_models.get(variant.name, {}).values()), None)
    path, identity = variant.recipe.init_from, None
    if first is not None and path is not None:
        # With one pretraining per seed, the runs differ; their recipe is what they share.
        per_seed = pretrain == "each seed" and path.endswith(".toml")
        identity = Recipe.load(path).fingerprint if per_seed else first.identity
    return variant.recipe.model_copy(update={"init_from": identity})


def _resolved(variant: Variant, initial_models: InitialModels) -> Variant:
    """With the settings of its initial model, and on one thread, as it will be trained."""
    first = next(iter(initial_models.get(variant.name, {}).values()), None)
    recipe = variant.recipe
    if first is not None:
        recipe = inherit_settings(recipe.model_copy(update={"init_from": first.name}), first)
    train = recipe.train.model_copy(update={"threads": 1})
    return replace(variant, recipe=recipe.model_copy(update={"train": train}))


def _read_plan(file: Path, names: Sequence[str]) -> StoredPlan:
    # Not printable texts: what a recipe says is compared.
    with suppress(ValidationError):
        stored = restore_record(StoredPlan, read_json(file, schema=PLAN_SCHEMA))
        if [variant.name for variant in stored.variants] == list(names):
            return stored
    raise UserError(
        f"{file} is damaged: it lacks the recipe of some variant",
        topic="study",
        hint="Delete it to have it computed again; finished runs are kept.",
    )


def _check_same(now: Recipe, then: Recipe, *, home: Path) -> None:
    """Refuse to resume runs whose recipe has changed."""
    differences = now.differences(then)
    if differences:
        raise UserError(
            f"the recipe of variant {now.name} has changed since {home} was started "
            f"({'; '.join(differences[:3])})",
            topic="study",
            hint="Change it back, give --out ANOTHER_FOLDER, or delete that folder.",
        )
