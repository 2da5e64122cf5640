"""A trained model in its folder: weights, tokenizer, config.

An adapted model's folder holds only the tensors that were trained; its base model is found and
loaded below them.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import SerializeAsAny

from regard.adapters import ADAPTERS, Adapter, used_family
from regard.adapters.full import Full
from regard.core.errors import UserError
from regard.core.settings import CatalogField, Settings, catalog_name, read_settings
from regard.core.untrusted import damage_named
from regard.core.user_files import check_same_code, files_used_by, suggest_run_files
from regard.data.tokenizers.tokenizer import Tokenizer, check_same_tokenizer
from regard.models.families import FAMILIES, Family, build_model
from regard.models.model import Model, TokenModel
from regard.objectives import OBJECTIVES, Objective
from regard.runs.models.adapter_files import load_adapter
from regard.runs.models.base_model import find_base
from regard.runs.models.saved_config import check_sizes, read_config
from regard.runs.recipe import build_tools
from regard.runs.recipe_paths import candidates_of_run, find_paths, run_around
from regard.tasks import TASKS, Problem, Task
from regard.training.checkpoint import WEIGHTS_FILE, load_weights

MAX_ADAPTERS = 8
"Above each other: an adapter may have been trained on an adapted model."


class SavedSettings(Settings):
    """The settings in config.json."""

    model: Annotated[SerializeAsAny[Family], CatalogField(FAMILIES, selector="family")]
    "Model family and sizes."
    objective: Annotated[SerializeAsAny[Objective], CatalogField(OBJECTIVES)]
    "Training objective on texts, of this model or of its initial model."
    task: Annotated[SerializeAsAny[Task] | None, CatalogField(TASKS)] = None
    "The task of its head."
    adapt: Annotated[SerializeAsAny[Adapter], CatalogField(ADAPTERS)] = Full()
    "How its base model was adapted, if it holds an adapter."


@dataclass(frozen=True)
class SavedModel:
    """A model with its tokenizer, objective, task and adapter."""

    model: Model
    tokenizer: Tokenizer
    family: Family
    vocabulary: int
    "Rows of its token embedding."
    objective: Objective
    "Training objective on texts, of this model or of its initial model."
    task: Task | None
    problem: Problem[Any] | None
    "Its task with the state derived from the training rows."
    adapter: Adapter
    config: Mapping[str, Any]

    @property
    def body(self) -> TokenModel:
        """The model without the head of its task."""
        return self.model.body

    def plain_body(self) -> TokenModel:
        """The body as its family builds it, with the adapter merged into the weights."""
        if self.adapter.virtual_tokens:
            kind = catalog_name(self.adapter, ADAPTERS)
            raise UserError(
                f"this model was adapted by {kind} tuning, which cannot be merged into its weights",
                topic="model",
                hint="Start from its base model, or adapt it by LoRA, which can be merged.",
            )
        self.adapter.merge(self.model)
        return self.body.requires_grad_(True)


def load_saved_model(
    folder: Path,
    *,
    path: Path,
    tokenizer: Tokenizer | None = None,
    base: Path | None = None,
    above: tuple[Path, ...] = (),
) -> SavedModel:
    """Load from a model folder that was checked intact. Errors name `path`, as the user gave it;
    `base` is the new path of an adapter's base model, if it was moved; `above` are the adapters
    whose base model this is."""
    above = _check_chain(folder, above)
    config = read_config(folder)
    tokenizer = tokenizer or Tokenizer.load(folder)
    check_same_tokenizer(config["tokenizer"], tokenizer, owner=f"model {path}")
    with suggest_run_files(path):
        settings = saved_settings(config, folder)
    check_same_code(files_used_by(config), path)
    family, task, adapter = settings.model, settings.task, settings.adapt
    if "adapt" in config:
        base_folder = find_base(config["base"], owner=path, given=base)
        body = load_saved_model(base_folder, path=base_folder, above=above).plain_body()
    else:
        formulas = family.count_parameters(config["vocabulary"])
        check_sizes(folder, formulas, adapter=False)
        body = build_model(family, vocabulary=config["vocabulary"], seed=0)
    problem = None
    model: Model = body
    if task is not None:
        tools = build_tools(task, family, tokenizer, virtual_tokens=adapter.virtual_tokens)
        with damage_named("task_state", topic="model", where=str(folder / "config.json")):
            problem = task.restore_problem(config["task_state"], tools)
            model = problem.attach_head(body, seed=0)
    has_adapter = adapter.saves_adapter_only and not (folder / WEIGHTS_FILE).is_file()
    if has_adapter:
        added = adapter.count_parameters(
            used_family(model, family), vocabulary=int(config["vocabulary"])
        )
        check_sizes(folder, added, adapter=True)
    adapter.apply(model, seed=0)
    if has_adapter:
        load_adapter(
            model, folder, family=family, tokenizer=tokenizer, architecture=architecture_of(config)
        )
    else:
        load_weights(model, folder / WEIGHTS_FILE)
    return SavedModel(
        model.eval(),
        tokenizer,
        family,
        int(config["vocabulary"]),
        settings.objective,
        task,
        problem,
        adapter,
        config,
    )


def _check_chain(folder: Path, above: tuple[Path, ...]) -> tuple[Path, ...]:
    chain = (*above, folder.resolve())
    if chain[-1] in above or len(chain) > MAX_ADAPTERS:
        raise UserError(
            f"{folder} holds an adapter whose base model leads back to it"
            if chain[-1] in above
            else f"{chain[0]} holds an adapter above more than {MAX_ADAPTERS} others",
            topic="model",
            hint="Give the model that it was trained on: --base FOLDER.",
        )
    return chain


def architecture_of(config: Mapping[str, Any]) -> str | None:
    """Hugging Face architecture of an imported model, or of the model it was started from."""
    name = config.get("imported", config).get("architecture")
    return None if name is None else str(name)


def saved_settings(config: Mapping[str, Any], folder: Path) -> SavedSettings:
    """The settings in a folder's config.json, which errors name."""
    table = deepcopy({key: config[key] for key in SavedSettings.model_fields if key in config})
    find_paths(table, candidates_of_run(run_around(folder)))
    return read_settings(SavedSettings, table, locate=lambda key: str(folder / "config.json"))
