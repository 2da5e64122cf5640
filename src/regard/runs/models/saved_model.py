"""A trained model as it lies in a folder: weights, tokenizer, and what they belong to.

A model that was adapted lies there as what was trained alone; its base is found and put below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.adapters import ADAPTERS, Adapter
from regard.adapters.full import Full
from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.settings import Settings, catalog_name, read_settings, settings_class
from regard.core.user_files import check_same_code, files_used_by, suggest_run_files
from regard.data.tokenizers.tokenizer import Tokenizer, check_same_tokenizer
from regard.models.families import FAMILIES, Family
from regard.models.model import Model
from regard.models.task_models.task_model import TaskModel
from regard.objectives import OBJECTIVES, Objective
from regard.runs.models.adapter_files import load_adapter
from regard.runs.models.base_model import find_base
from regard.runs.recipe import tools_of
from regard.runs.run import read_config
from regard.tasks import TASKS, Problem, Task
from regard.training.checkpoint import WEIGHTS_FILE, load_weights


@dataclass(frozen=True)
class SavedModel:
    """A model with all that it was trained to do."""

    model: Model
    tokenizer: Tokenizer
    family: Family
    vocabulary: int
    "Rows of its token table."
    objective: Objective
    "What it was trained to tell of texts, it or the model it was started from."
    task: Task | None
    problem: Problem | None
    "Its task with what was learnt of it."
    adapter: Adapter
    config: Mapping[str, Any]

    @property
    def body(self) -> Model:
        """The model without the head of its task."""
        return self.model.body if isinstance(self.model, TaskModel) else self.model

    def plain_body(self) -> Model:
        """The body as its family builds it: what an adapter added is folded into the weights."""
        if self.adapter.virtual_tokens:
            kind = catalog_name(self.adapter, ADAPTERS)
            raise UserError(
                f"this model was adapted by a {kind}, which is no part of its weights, so it "
                "cannot be taken without it",
                topic="model",
                hint="Start from its base, or adapt it by LoRA, which can be merged.",
            )
        self.adapter.merge(self.model)
        return self.body.requires_grad_(True)


def load_saved(
    home: Path, *, place: Path, tokenizer: Tokenizer | None = None, base: Path | None = None
) -> SavedModel:
    """From a folder that was found whole; errors speak of `place`, as the person named it. `base`
    is where an adapter's base lies, if not where it was."""
    config = read_config(home)
    text = tokenizer or Tokenizer.load(home)
    check_same_tokenizer(config["tokenizer"], text, owner=f"model {place}")
    with suggest_run_files(place):
        family, objective = family_of(config), objective_of(config)
        task = _part(TASKS, config["task"], key="task") if "task" in config else None
    check_same_code(files_used_by(config), place)
    assert task is None or isinstance(task, Task)
    adapter: Adapter = Full()
    if "adapt" in config:
        adapter = _adapter_of(config)
        below = find_base(config["base"], owner=place, given=base)
        model = load_saved(below, place=below).plain_body()
    else:
        model = family.build(vocabulary=config["vocabulary"], seed=0)
    problem = None
    if task is not None:
        tools = tools_of(task, family, text, taken=adapter.virtual_tokens)
        problem = task.restore_problem(config["learnt"], tools)
        model = problem.attach_head(model, seed=0)
    adapter.apply(model, seed=0)
    if adapter.saves_adapter_only and not (home / WEIGHTS_FILE).is_file():
        load_adapter(
            model, home, family=family, tokenizer=text, architecture=architecture_of(config)
        )
    else:
        load_weights(model, home / WEIGHTS_FILE)
    return SavedModel(
        model.eval(),
        text,
        family,
        int(config["vocabulary"]),
        objective,
        task,
        problem,
        adapter,
        config,
    )


def architecture_of(config: Mapping[str, Any]) -> str | None:
    """What other tools call a model that came from one, itself or what it was started from."""
    found = config.get("imported", config).get("architecture")
    return None if found is None else str(found)


def family_of(config: Mapping[str, Any]) -> Family:
    family = _part(FAMILIES, config["model"], key="model", selector="family")
    assert isinstance(family, Family)
    return family


def objective_of(config: Mapping[str, Any]) -> Objective:
    objective = _part(OBJECTIVES, config["objective"], key="objective")
    assert isinstance(objective, Objective)
    return objective


def _adapter_of(config: Mapping[str, Any]) -> Adapter:
    adapter = _part(ADAPTERS, config["adapt"], key="adapt")
    assert isinstance(adapter, Adapter)
    return adapter


def _part(catalog: Catalog, table: dict[str, Any], *, key: str, selector: str = "kind") -> Settings:
    rest = dict(table)
    return read_settings(settings_class(catalog, rest.pop(selector)), rest, key=key)
