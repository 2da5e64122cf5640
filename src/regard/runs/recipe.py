"""A recipe: one experiment as a TOML file, validated, and saved with its run fully resolved.

    name = "mini-gpt"      init_from = "pretrain.toml"      [adapt] …
    [data] …   [tokenizer] …   [model] …   [objective] …   [train] …   [evaluate] …   [samples] …

With a `[task]` the data are rows with columns, and the task defines inputs and targets; without
one they are texts, and the objective does.

Each table is validated by the settings class beside the part it configures; this file only joins
them. Errors name the file, the line, the key, the given value and what is allowed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import tomli_w
from pydantic import Field, SerializeAsAny, model_validator

from regard.adapters import ADAPTERS, Adapter
from regard.adapters.full import Full
from regard.core.errors import UserError
from regard.core.settings import (
    FILE_NAME,
    FILE_NAME_RULE,
    CatalogField,
    Locate,
    Settings,
    catalog_name,
    read_settings,
    to_table,
)
from regard.core.toml import TomlTable, flatten, read_toml
from regard.core.untrusted import MAX_PATH
from regard.core.user_files import suggest_run_files
from regard.data.corpus import Data
from regard.data.tokenizers import TOKENIZERS, TokenizerKind
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.models.families import FAMILIES, Family
from regard.models.families.decoder import Decoder
from regard.objectives import OBJECTIVES, Objective
from regard.objectives.causal import Causal
from regard.runs.recipe_paths import candidates_beside, find_paths, here
from regard.tasks import TASKS, Task, Tools
from regard.tasks.advice import advise
from regard.training.settings import Train

FORMAT = 4
"Raised whenever the same recipe would give another run."


def check_run_name(name: str, *, option: str) -> None:
    """Raise where a name cannot be that of a run."""
    if not re.fullmatch(FILE_NAME, name):
        raise UserError(f"{option} {name}: give {FILE_NAME_RULE}")


class Evaluate(Settings):
    """The final evaluation."""

    documents: int = Field(default=2000, ge=2)
    """Maximum documents or rows of each split, drawn by seed; every score is printed with its n. A
    language model's training split has at most twice as many as dev or test."""
    ngram: int = Field(default=3, ge=2, le=5)
    "Order of the Kneser-Ney baseline."


class Samples(Settings):
    """Texts that the model generates during and after training."""

    prompts: tuple[str, ...] = ("", "")
    "Prompts, one per sample; an empty one starts a new document."
    max_new_tokens: int = Field(default=60, ge=1, le=100_000)
    "Maximum tokens generated per sample."
    temperature: float = Field(default=0.8, ge=0.0)
    "Sampling temperature; 0 is greedy."
    top_p: float = Field(default=0.95, gt=0.0, le=1.0)
    "Nucleus sampling: draw from the most likely tokens with this total probability."


class Recipe(Settings):
    """One experiment."""

    name: str = Field(pattern=FILE_NAME)
    "Name of the run folder."
    init_from: str | None = Field(default=None, max_length=MAX_PATH)
    "Initial model: a run or model folder, a pip package (pip:NAME), or a recipe that is run first."
    data: Data
    "Corpus, columns and splits."
    tokenizer: Annotated[SerializeAsAny[TokenizerKind], CatalogField(TOKENIZERS)] = Bpe()
    "Tokenizer kind and size."
    model: Annotated[SerializeAsAny[Family], CatalogField(FAMILIES, selector="family")] = Decoder()
    "Model family and sizes."
    objective: Annotated[SerializeAsAny[Objective], CatalogField(OBJECTIVES)] = Causal()
    "Training objective on texts; a task has its own."
    task: Annotated[SerializeAsAny[Task] | None, CatalogField(TASKS)] = None
    "Task on rows with columns; without one the model is trained on texts alone."
    adapt: Annotated[SerializeAsAny[Adapter], CatalogField(ADAPTERS)] = Full()
    "Which parameters of the initial model are trained, and which are added (LoRA, prompts, …)."
    train: Train = Train()
    "Optimizer, schedule, batches and evaluation during training."
    evaluate: Evaluate = Evaluate()
    "The final evaluation."
    samples: Samples = Samples()
    "Texts generated during and after training."

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """What follows from other settings, where the recipe does not say it."""
        if not isinstance(values, dict):
            return values
        family, train = values.get("model"), values.get("train") or Train()
        if values.get("objective") is None and isinstance(family, Family):
            # The family's default: an encoder predicts masked tokens.
            first = FAMILIES.get(catalog_name(family, FAMILIES)).properties["objectives"][0]
            values = {**values, "objective": OBJECTIVES.get(first).part()}
        if not isinstance(train, Train):
            return values
        changes: dict[str, Any] = {}
        if values.get("task") is not None and "batches" not in train.model_fields_set:
            changes["batches"] = "bucketed"  # rows of similar length together
        adapt = values.get("adapt")
        if isinstance(adapt, Adapter) and catalog_name(adapt, ADAPTERS) == "none":
            changes["max_steps"] = 0  # nothing is trained: the model is only evaluated
        return {**values, "train": train.model_copy(update=changes)} if changes else values

    @model_validator(mode="after")
    def _check_compatible(self) -> Self:
        if self.task is not None and self.train.batches == "packed":
            raise UserError(
                'train.batches = "packed" would join the rows of a task',
                topic="recipe",
                hint='Set it to "bucketed" or "padded", or leave it out.',
            )
        if self.task is not None and self.train.accumulate > 1:
            _check_accumulation(self.task, self.train)
        if self.init_from is None:
            check_family_supports(self.model, self.objective, self.task)
            _check_no_adapter(self.adapt)
        return self

    @property
    def token_context(self) -> int:
        """Positions of a row that are left for tokens beside virtual tokens."""
        return self.model.context - self.adapt.virtual_tokens

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        overrides: Iterable[str] = (),
        changes: Mapping[str, Any] | None = None,
        changed_by: str = "",
    ) -> Self:
        """Read a recipe file; its paths are relative to it. `overrides` are texts such as
        `train.lr=1e-3`; `changes` are dotted keys with values, attributed to `changed_by` in
        errors; their paths are relative to the working directory."""
        file = Path(path)
        inside = file / "recipe.toml"
        read = read_toml(inside if inside.is_file() else file, topic="recipe")
        _check_is_no_study(read)
        read.table.setdefault("name", file.stem)
        find_paths(read.table, candidates_beside(file))
        for text in overrides:
            read.override(text)
        with suggest_run_files(file if file.is_dir() else file.parent):
            return cls._changed(read, changes, by=changed_by)

    @classmethod
    def from_dictionary(
        cls,
        table: Mapping[str, Any],
        *,
        changes: Mapping[str, Any] | None = None,
        changed_by: str = "set",
    ) -> Self:
        """The recipe of a dictionary as TOML would give it; paths are relative to the working
        directory."""
        read = TomlTable.of_dictionary(table)
        _check_is_no_study(read)
        return cls._changed(read, changes, by=changed_by)

    @classmethod
    def _changed(cls, read: TomlTable, changes: Mapping[str, Any] | None, *, by: str) -> Self:
        for key, value in (changes or {}).items():
            read.change(key, value, by=by)
        find_paths(read.table, here)
        return cls.from_table(read.table, locate=read.locate)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], *, locate: Locate = lambda key: "") -> Self:
        return read_settings(cls, table, locate=locate)

    def to_table(self) -> dict[str, Any]:
        """All settings, defaults included."""
        return to_table(self)

    def to_toml(self) -> str:
        return tomli_w.dumps(self.to_table())

    @property
    def fingerprint(self) -> str:
        """Hash of everything but the name: equal for two recipes of the same run."""
        table = {key: value for key, value in self.to_table().items() if key != "name"}
        canonical = json.dumps({"format": FORMAT, **table}, sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def differences(self, other: Recipe) -> list[str]:
        """`train.lr: 0.001 here, 0.0005 there` for each setting that differs."""
        ours, theirs = flatten(self.to_table()), flatten(other.to_table())
        return [
            f"{key}: {ours.get(key)!r} here, {theirs.get(key)!r} there"
            for key in sorted(ours.keys() | theirs.keys())
            if ours.get(key) != theirs.get(key)
        ]


def _check_is_no_study(read: TomlTable) -> None:
    if {"base", "variants"} & read.table.keys():
        raise UserError(
            "is a study, not a recipe",
            topic="recipe",
            where=str(read.file),
            hint=f"regard compare {read.file}" if read.lines else "Give it to regard.compare.",
        )


def build_tools(
    task: Task | None,
    family: Family,
    tokenizer: Tokenizer,
    *,
    virtual_tokens: int = 0,
    seed: int = 0,
) -> Tools:
    """What a task encodes its rows with; `virtual_tokens` of the context are taken."""
    context = family.context - virtual_tokens
    max_length = task.max_tokens if task is not None and task.max_tokens else context
    return Tools(tokenizer, min(context, max_length), catalog_name(family, FAMILIES), seed)


def check_family_supports(family: Family, objective: Objective, task: Task | None) -> None:
    """Refuse an objective or a task that a family cannot learn."""
    name, objective_name = catalog_name(family, FAMILIES), catalog_name(objective, OBJECTIVES)
    if task is not None:
        kind = catalog_name(task, TASKS)
        families = TASKS.get(kind).properties["families"]
        if name not in families:
            raise UserError(
                f"task.kind = {kind!r} is not for model.family = {name!r}",
                topic="recipe",
                hint=f"Set model.family to {' or '.join(families)}: {advise(kind)}.",
            )
        return
    possible = FAMILIES.get(name).properties["objectives"]
    if objective_name not in possible:
        raise UserError(
            f"model.family = {name!r} does not learn objective = {objective_name!r}",
            topic="recipe",
            hint=f"It takes {' or '.join(possible)}; left out, the objective follows the family.",
        )
    for setting, value in objective.model_settings.items():
        if getattr(family, setting, None) != value:
            raise UserError(
                f"objective = {objective_name!r} needs model.{setting} = {json.dumps(value)}",
                topic="recipe",
                hint=f"Set it, or take {' or '.join(o for o in possible if o != objective_name)}.",
            )


def _check_no_adapter(adapter: Adapter) -> None:
    if not isinstance(adapter, Full):
        kind = catalog_name(adapter, ADAPTERS)
        raise UserError(
            f"adapt.kind = {kind!r} adapts a trained model, and there is none",
            topic="recipe",
            hint='Set init_from, as in init_from = "runs/mini-bert", or leave [adapt] out.',
        )


def _check_accumulation(task: Task, train: Train) -> None:
    """In-batch negatives come from the micro-batch, so accumulation would change the task."""
    kind = catalog_name(task, TASKS)
    if TASKS.get(kind).properties.get("compares_rows"):
        raise UserError(
            f"train.accumulate = {train.accumulate} would compare each row of task.kind = {kind!r} "
            f"with its micro-batch alone",
            topic="recipe",
            hint="Set train.accumulate = 1, and train.batch_tokens to what fits into memory.",
        )
