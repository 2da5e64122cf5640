"""A trained model as it lies in a folder: weights, tokenizer, and what they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.experiment.run import read_config
from regard.model.families import FAMILIES, Family
from regard.model.headed import HeadedModel
from regard.model.model import Model
from regard.objectives import OBJECTIVES, Objective
from regard.own_files import check_kept, naming_kept, used_in
from regard.recipe import tools_of
from regard.settings import read_settings, settings_class
from regard.tasks import TASKS, Problem, Task
from regard.text.tokenizer import Tokenizer, check_same
from regard.training.checkpoint import load_weights


@dataclass(frozen=True)
class Saved:
    """A model with all that it was trained to do."""

    model: Model
    tokenizer: Tokenizer
    objective: Objective
    "What it was trained to tell of texts, it or the model it was started from."
    task: Task | None
    problem: Problem | None
    "Its task with what was learnt of it."

    @property
    def body(self) -> Model:
        """The model without the head of its task."""
        return self.model.body if isinstance(self.model, HeadedModel) else self.model


def load_saved(home: Path, *, place: Path, tokenizer: Tokenizer | None = None) -> Saved:
    """From a folder that was found whole; errors speak of `place`, as the person named it."""
    config = read_config(home)
    text = tokenizer or Tokenizer.load(home)
    check_same(config["tokenizer"], text, owner=f"model {place}")
    with naming_kept(place):
        family = _part(FAMILIES, config["model"], selector="family", key="model")
        objective = _part(OBJECTIVES, config["objective"], selector="kind", key="objective")
        task = (
            _part(TASKS, config["task"], selector="kind", key="task") if "task" in config else None
        )
    check_kept(used_in(config), place)
    assert isinstance(family, Family)
    assert isinstance(objective, Objective)
    assert task is None or isinstance(task, Task)
    model: Model = family.build(vocabulary=config["vocabulary"], seed=0)
    problem = None
    if task is not None:
        problem = task.reopen(config["learnt"], tools_of(family, text))
        model = problem.fit(model, seed=0)
    load_weights(model, home / "model.safetensors")
    return Saved(model.eval(), text, objective, task, problem)


def _part(catalog: Any, table: dict[str, Any], *, selector: str, key: str) -> Any:
    rest = dict(table)
    return read_settings(settings_class(catalog, rest.pop(selector)), rest, key=key)
