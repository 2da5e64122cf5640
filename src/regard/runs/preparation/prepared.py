"""A recipe's data under one tokenizer, ready for training and evaluation.

Two classes implement it: `PreparedText`, from which an objective draws examples (`text.py`), and
`PreparedTask`, the rows of a task (`task.py`). Experiment, training and the end of a run use this
interface alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.data.corpus import Split
from regard.data.statistics import CorpusStatistics
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.metrics.metric import Row
from regard.evaluation.statistics.baseline_verdict import BaselineVerdict
from regard.models.model import Model, TokenModel
from regard.runs.health_record import HealthRecord
from regard.runs.observer import Observer
from regard.runs.preparation.data_remarks import unknown_token_flaws
from regard.runs.preparation.overlap import DataOverlap
from regard.runs.recipe import Recipe
from regard.runs.results import (
    MODEL,
    ComparisonRecord,
    ContaminationRecord,
    SampleRecord,
    ScoreRecord,
)
from regard.training.batch_loader import Examples
from regard.training.loop import EvalResult

TRIVIAL_BASELINES = ("unigram", "majority class", "most frequent answer")
"Whoever is behind them has learned nothing of the inputs yet."
KNOWN_TRAIN = 2.0
"""Ratio of a baseline's perplexity to the model's on train from which on it knows the training
text, and may be behind on dev because it does."""


@dataclass(frozen=True)
class SplitResults:
    """The final evaluation of a model on every split, as it is written to results.json."""

    estimates: tuple[ScoreRecord, ...]
    comparisons: tuple[ComparisonRecord, ...]
    "The model minus each baseline, on the same items."
    remarks: tuple[str, ...]
    items: Mapping[Split, Sequence[Row]]
    "Per-item results."
    fingerprints: dict[str, dict[str, str]]
    "Of the items: only scores on the same ones are compared."
    metric: dict[str, Any]
    "Settings of the metric that turns items into estimates."
    tables: dict[str, list[Row]] = field(default_factory=dict)
    "Scores of subsets of the items, by length or type; each row names its split."
    contamination: tuple[ContaminationRecord, ...] = ()
    "Of the splits whose scores leave out items that stand in training."

    def trivial_baseline_ahead(self) -> str:
        """The trivial baseline that the model is behind on dev, though not because it has learned
        the training rows by heart; empty if there is none."""
        for one in self.comparisons:
            if one.split != "dev" or one.verdict != BaselineVerdict.BEHIND:
                continue
            if not one.against.startswith(TRIVIAL_BASELINES):
                continue
            scores = {
                (row.split, row.of): row.value for row in self.estimates if row.metric == one.metric
            }
            ours, theirs = scores.get(("train", MODEL)), scores.get(("dev", one.against))
            if ours is None or theirs is None:
                continue
            if one.metric == "perplexity":
                knows_train = KNOWN_TRAIN * ours < theirs
            else:
                knows_train = ours > theirs
            if not knows_train:
                return one.against
        return ""


class ScoredItems(NamedTuple):
    """How many items of a split are scored."""

    items: int
    groups: int | None = None
    "None where every item stands alone."

    @property
    def units(self) -> int:
        return self.items if self.groups is None else self.groups


class PreparedData(ABC):
    """Everything that training and evaluation read."""

    def __init__(
        self,
        recipe: Recipe,
        tokenizer: Tokenizer,
        *,
        source: str,
        statistics: CorpusStatistics,
        overlap: DataOverlap,
    ) -> None:
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.source = source
        "Hash of the source files."
        self.statistics = statistics
        self.overlap = overlap

    @abstractmethod
    def examples(self) -> Examples:
        """Examples of the training split."""

    @abstractmethod
    def evaluate_dev(self, model: Model, *, device: str) -> EvalResult:
        """Evaluate on train.evaluate_documents items of dev, during training."""

    @abstractmethod
    def evaluation_positions(self, *, evaluations: int) -> int:
        """About how many positions `evaluations` on dev and the final evaluation process."""

    @abstractmethod
    def evaluate(self, model: Model, *, device: str, observer: Observer) -> SplitResults:
        """The final evaluation: estimates of model and baselines on every split."""

    @abstractmethod
    def health(self, model: Model, results: SplitResults) -> HealthRecord:
        """What the scores do not show."""

    @abstractmethod
    def samples(self, model: Model) -> tuple[SampleRecord, ...]:
        """Prompts and the model's continuations or answers; empty if it cannot generate."""

    @property
    def data_flaws(self) -> tuple[str, ...]:
        """What lets a model be right without learning, or wrong whatever it learns, in words."""
        return (*unknown_token_flaws(self.statistics), *self.overlap.flaws)

    def label_counts(self, split: Split) -> Mapping[str, int]:
        """Rows of each class, the most frequent first; empty where rows have no classes."""
        return {}

    def scored_items(self, split: Split) -> ScoredItems:
        """What of a split the final evaluation scores."""
        documents = self.statistics.splits[split].documents
        return ScoredItems(min(documents, self.recipe.evaluate.documents))

    def remarks(self) -> list[str]:
        """What users have to know of the training split before training starts."""
        return []

    def attach_head(self, model: TokenModel, *, seed: int) -> Model:
        """The model with the head it needs; by default unchanged."""
        return model

    def task_state(self) -> Mapping[str, Any]:
        """What is saved with the model besides its weights."""
        return {}

    def tune(self, model: Model, *, device: str) -> list[str]:
        """Choose on dev what is chosen after training; remarks say what was."""
        return []
