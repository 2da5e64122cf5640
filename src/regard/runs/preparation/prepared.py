"""What a recipe trains and judges a model on, ready in the tokens of one tokenizer.

There are two sorts: text, which an objective turns into examples (`language.py`), and the rows of
a task (`task.py`). All that stands around them (bench, training, the end of a run) knows this
shape alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.data.corpus import Split
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.metrics.metric import Row
from regard.models.model import Model
from regard.runs.observer import Observer
from regard.runs.recipe import Recipe
from regard.training.batch_loader import Examples
from regard.training.loop import EvalResult


@dataclass(frozen=True)
class SplitResults:
    """What figures.json tells of a model."""

    figures: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]
    "The model minus each baseline, on the same items."
    remarks: list[str]
    items: Mapping[Split, Sequence[Row]]
    "What was measured of each single item."
    fingerprints: Mapping[Split, Mapping[str, str]]
    "Which items those are: figures on others are not put beside them."
    measure: Mapping[str, Any]
    "What turns items into figures, as settings."
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    "Figures of some items apart, each row with its part: by length, by sort."


class PreparedData(ABC):
    """All that training and judging read."""

    def __init__(
        self, recipe: Recipe, tokenizer: Tokenizer, *, source: str, statistics: dict[str, Any]
    ) -> None:
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.source = source
        "Hash of what everything was made from."
        self.statistics = statistics

    @abstractmethod
    def examples(self) -> Examples:
        """Of the training part."""

    @abstractmethod
    def look(self, model: Model, *, device: str) -> EvalResult:
        """At a few items of dev, while it trains."""

    @abstractmethod
    def places_measured(self, *, looks: int) -> int:
        """About how many places go through the model in so many looks and in the final figures."""

    @abstractmethod
    def measure(self, model: Model, *, device: str, watch: Observer) -> SplitResults:
        """Figures of model and baselines on every part."""

    @abstractmethod
    def health(self, model: Model, measured: SplitResults) -> dict[str, Any]:
        """What else is wrong with the model, for figures.json."""

    @abstractmethod
    def samples(self, model: Model) -> list[dict[str, str]]:
        """Prompts and what the model writes after them; nothing where it cannot write."""

    def remarks(self) -> list[str]:
        """What people have to know of the training part before anything is trained."""
        return []

    def fitted(self, model: Model, *, seed: int) -> Model:
        """The model with the head it needs; by default as it is."""
        return model

    def learnt(self) -> Mapping[str, Any]:
        """What has to be kept with the model besides its weights."""
        return {}

    def tune(self, model: Model, *, device: str) -> list[str]:
        """Choose on dev what is chosen after training, and say so."""
        return []
