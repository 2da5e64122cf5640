"""Validate a recipe: resolve it, prepare its data, count parameters, and forecast its cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regard.core.ledger import Ledger, ParameterCount
from regard.core.process.memory_limits import MemoryLimits
from regard.core.settings import catalog_name
from regard.data.corpus import SPLITS
from regard.data.statistics import SplitOverlap, SplitStatistics
from regard.evaluation.formatting import quantity
from regard.models.families import FAMILIES
from regard.runs.experiment import build_experiment, forecast_experiment
from regard.runs.models.init_from import preview_initial_model
from regard.runs.observer import Observer
from regard.runs.preflight.memory import memory_limits_of
from regard.runs.recipe import Recipe
from regard.runs.results import JUDGED_SPLITS
from regard.tasks import TASKS
from regard.tasks.advice import advise
from regard.training.events import Event, RemarkEvent
from regard.training.forecast import Forecast


@dataclass(frozen=True)
class Validation:
    """A recipe that can be trained, and what its training will cost."""

    recipe: Recipe
    "Resolved, with what it takes from its initial model."
    splits: Mapping[str, SplitStatistics]
    parameters: tuple[ParameterCount, ...]
    "By module, as formulas; their sum is the model's."
    vocabulary: int
    "Rows of the token embedding."
    ledger: Ledger
    "What the adapter trains of it."
    forecast: Forecast
    padding_waste: float
    overlap: Mapping[str, SplitOverlap]
    "What of dev and test stands in training."
    labels: Mapping[str, Mapping[str, int]]
    "Rows of each class, by split; empty where rows have no classes."
    scored: Mapping[str, int]
    "Items of dev and test that the final evaluation scores, or their groups."
    differences: Mapping[str, float]
    "The smallest difference in accuracy that dev and test could show; of a classification."
    memory: MemoryLimits
    remarks: tuple[str, ...]
    "What is worth knowing of data, settings and machine."
    advice: str
    "The recommended family for the task, if the recipe has another; else empty."
    trained_first: str
    "The recipe of the initial model, if it has not been trained yet; its cost is not counted."

    def __repr__(self) -> str:
        cost = self.forecast
        seconds = cost.seconds + cost.evaluation_seconds
        return (
            f"<Validation {self.recipe.name}: {quantity(cost.steps, 'steps')}, "
            f"{cost.parameters:,} parameters, about {seconds:,.0f} s, "
            f"{quantity(len(self.remarks), 'remarks')}>"
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "recipe": self.recipe.to_table(),
            **self.forecast.as_dict(),
            "waste": self.padding_waste,
            "splits": {name: asdict(split) for name, split in self.splits.items()},
            "overlap": {name: asdict(found) for name, found in self.overlap.items()},
            "labels": {name: dict(counts) for name, counts in self.labels.items()},
            "scored": dict(self.scored),
            "smallest_difference": dict(self.differences),
            "memory": asdict(self.memory),
            "remarks": list(self.remarks),
            "parameters_by_module": [asdict(term) for term in self.parameters],
        }


def validate_recipe(recipe: Recipe, *, runs: Path, observer: Observer) -> Validation:
    """Tokenizes the text (cached for training) and times a few updates of a throw-away model."""
    from regard.evaluation.statistics.planning import smallest_difference  # imports SciPy

    remarks: list[str] = []

    def on_event(event: Event) -> None:
        if isinstance(event, RemarkEvent):
            remarks.append(event.text)
        observer.on_event(event)

    previewed, initial_model = preview_initial_model(recipe, runs=runs)
    experiment = build_experiment(
        previewed, initial_model=initial_model, observer=replace(observer, on_event=on_event)
    )
    resolved, prepared = experiment.recipe, experiment.prepared
    labels: dict[str, Mapping[str, int]] = {split: prepared.label_counts(split) for split in SPLITS}
    scored: dict[str, int] = {split: prepared.scored_items(split).units for split in JUDGED_SPLITS}
    return Validation(
        recipe=resolved,
        splits=prepared.statistics.splits,
        overlap=prepared.statistics.overlap,
        labels={split: counts for split, counts in labels.items() if counts},
        scored=scored,
        differences={
            split: difference
            for split, units in scored.items()
            if labels[split] and (difference := smallest_difference(units)) is not None
        },
        memory=memory_limits_of(resolved.train.device),
        parameters=tuple(resolved.model.count_parameters(experiment.vocabulary)),
        vocabulary=experiment.vocabulary,
        ledger=replace(experiment.ledger(), is_projected=True),
        forecast=forecast_experiment(experiment),
        padding_waste=experiment.loader.padding_waste(),
        remarks=tuple(remarks),
        advice=_advice(resolved),
        trained_first=recipe.init_from or "" if initial_model is None else "",
    )


def _advice(recipe: Recipe) -> str:
    """The recommended family for the task, if the recipe has another."""
    if recipe.task is None:
        return ""
    kind = catalog_name(recipe.task, TASKS)
    advice = advise(kind)
    if catalog_name(recipe.model, FAMILIES) == advice.family:
        return ""
    return f"task.kind = {kind!r} is {advice}"
