"""A recipe's data under one tokenizer, ready for training and evaluation.

Two classes implement it: `PreparedText`, from which an objective draws examples (`text.py`), and
`PreparedTask`, the rows of a task (`task.py`). Experiment, training and the end of a run use this
interface alone.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.core.errors import UserError
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


MAX_TIMED_ITEMS, TIMED_POSITIONS = 200, 4096
"Of dev, which are evaluated before training to forecast what evaluations take: some batches."


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
    def evaluate_dev(self, model: Model, *, device: str, documents: int) -> EvalResult:
        """Evaluate on so many items of dev, as during training."""

    @abstractmethod
    def dev_positions(self, documents: int) -> int:
        """About how many positions an evaluation on so many items of dev processes."""

    @abstractmethod
    def final_positions(self) -> int:
        """About how many positions the final evaluation processes, with tuning on dev."""

    def position_seconds(self, model: Model, *, device: str) -> float | None:
        """Of a position in evaluation, from a few items of dev; None where these are long, or too
        few for the metric."""
        few = min(MAX_TIMED_ITEMS, self.recipe.train.evaluate_documents)
        if (positions := self.dev_positions(few)) > TIMED_POSITIONS:
            few = max(1, few * TIMED_POSITIONS // positions)
            positions = self.dev_positions(few)
        if not 0 < positions <= 2 * TIMED_POSITIONS:
            return None
        model.eval()
        try:
            self.evaluate_dev(model, device=device, documents=few)  # takes memory, wakes threads
            began = time.perf_counter()
            self.evaluate_dev(model, device=device, documents=few)
        except UserError:
            return None
        return (time.perf_counter() - began) / positions

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

    def prepare_evaluation(self, observer: Observer) -> None:  # noqa: B027
        """Before training, what the final evaluation takes of the data alone, such as baselines
        that are fitted for minutes: the forecast is then of training and evaluation."""

    def tune(self, model: Model, *, device: str) -> list[str]:
        """Choose on dev what is chosen after training; remarks say what was."""
        return []
