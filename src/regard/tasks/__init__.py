"""Tasks, one file each: the columns of a dataset, how rows become model inputs, the head, the
metric and the baselines.

A `Task` is settings: which column has which role. Built on training rows with a tokenizer it
becomes a `Problem`, which holds what was derived from those rows (the set of labels) and maps

    rows  ──examples──►  training examples          rows  ──answer──►  one result row an item
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from regard.batch import Batch, Example, collate
from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.core.settings import Settings
from regard.data.batching import sorted_batches
from regard.data.corpus import Split
from regard.data.overlap.similarity import MIN_SIMILARITY, text_similarity
from regard.data.record_corpus import ColumnType, Record
from regard.data.sources import SourceIdentity
from regard.data.special_tokens import InputSequence
from regard.data.splits import as_text
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.metrics.metric import Metric, Row
from regard.models.loss import LossTerm
from regard.models.model import Model, TokenModel

TASKS = Catalog("task", home="regard.tasks", required=("families",))

MAX_BATCH_POSITIONS = 4096
"Positions of a batch while a model answers."
MAX_GROUP_CHARACTERS = 60
"Longer names of groups, such as whole passages, are replaced by a hash."

Prediction = TypeVar("Prediction")
AnyModel = TypeVar("AnyModel", bound=Model)
"The model that a problem's head makes."
TaskState = Mapping[str, Any]
"State derived from rows besides the weights (labels, thresholds), as JSON; saved with the model."


@dataclass(frozen=True)
class Tools:
    """What a task needs to turn rows into model inputs."""

    tokenizer: Tokenizer
    context: int
    "Maximum positions of a row."
    family: str
    "The model's family, by name: rows of a decoder and of an encoder have different formats."
    seed: int = 0
    "Seed of the training, for random draws of a problem."


class Task(Settings, ABC):
    """Settings of a task."""

    max_tokens: int = Field(default=0, ge=0)
    "Maximum tokens of a row, special tokens included; 0: the model's context."

    column_roles: ClassVar[tuple[str, ...]]
    "Settings that name a column, in the order users think of them; the setting is the role."
    target_roles: ClassVar[tuple[str, ...]]
    "Roles that hold the true answer, which rows to answer may lack."
    optional_roles: ClassVar[tuple[str, ...]] = ()
    "Roles whose column a file may lack."
    role_types: ClassVar[Mapping[str, ColumnType]] = {}
    "Type of each role's values; by default the first holds text, the others any value."

    group_role: ClassVar[str | None] = None
    "The input that several rows share (a passage, an image): they are a group if data has none."

    score_names: ClassVar[tuple[str, ...]]
    "Names of the metric's scores, the main one first."

    writes_target: ClassVar[bool] = False
    "Whether the target is a text that the model writes."

    is_same_when_near: ClassVar[bool] = True
    "Whether a row with a word or two changed is the same item: not where one word is all."

    def columns(self) -> dict[str, str]:
        """The user's column for each role."""
        return {role: getattr(self, role) for role in self.column_roles + self.optional_roles}

    def optional_columns(self) -> tuple[str, ...]:
        """The roles whose column a file may lack, under these settings."""
        return self.optional_roles

    def column_types(self) -> Mapping[str, ColumnType]:
        """Type of the values of each role, under these settings."""
        return self.role_types

    def input_columns(self) -> tuple[str, ...]:
        """The roles that rows to answer must have too."""
        return tuple(role for role in self.column_roles if role not in self.target_roles)

    def column_settings(self) -> Mapping[str, str]:
        """Where users name the column of a role, for errors; by default the setting of its
        name."""
        return {}

    def extra_sources(self) -> Iterator[SourceIdentity]:
        """Identities of files read besides the rows, so that edits are detected; default: none."""
        return iter(())

    def items(self, rows: Sequence[Record]) -> list[Record]:
        """The rows of a split as items: unusable ones are refused, several rows of one item are
        joined; by default one row is one item."""
        return list(rows)

    def build_problem(self, train: Sequence[Record], tools: Tools) -> Problem[Any]:
        """The problem, with its state derived from training rows; by default there is none."""
        return self.restore_problem({}, tools)

    @abstractmethod
    def restore_problem(self, state: TaskState, tools: Tools) -> Problem[Any]:
        """The problem, with the state saved with a model."""

    @abstractmethod
    def texts(self, record: Record) -> list[str]:
        """The texts of a row; a tokenizer is trained on them."""

    def identity_text(self, record: Record) -> str:
        """The input of a row as one text, to find the same row in another split."""
        return " ".join(self.input_texts(record))

    def is_near(self, row: Record, other: Record) -> bool:
        """Whether two rows whose joined inputs are near are near in each of their inputs."""
        pairs = zip(self.input_texts(row), self.input_texts(other), strict=True)
        return self.is_same_when_near and all(
            text_similarity(*pair) >= MIN_SIMILARITY for pair in pairs
        )

    def target_text(self, record: Record) -> str | None:
        """The true answer of a row as one text, to compare it with that of another row."""
        targets = [as_text(record[role]) for role in self.target_roles if role in record]
        return "\0".join(targets) if targets else None

    def group_of(self, record: Record) -> str | None:
        """The group of a row: that of its data, else what it shares with others; None: it stands
        alone."""
        if record.group or self.group_role is None or self.group_role not in record:
            return record.group
        shared = as_text(record[self.group_role])
        if len(shared) <= MAX_GROUP_CHARACTERS:
            return shared
        return hashlib.blake2b(shared.encode(), digest_size=8).hexdigest()

    def check(self, record: Record) -> None:
        """Refuse an unusable row; called on every split before training."""

    def input_texts(self, record: Record) -> list[str]:
        """The input of a row, shown beside its answer; by default all of its texts."""
        return self.texts(record)


class Problem(ABC, Generic[AnyModel]):
    """A task with a tokenizer and the state derived from its training rows."""

    metric: Metric
    tunes: ClassVar[bool] = False
    "Whether `tune` answers the rows of dev."
    is_tuned_on_dev: ClassVar[bool] = False
    "Whether `tune` fits the main metric to dev, so that dev scores are biased."
    is_fast_to_answer: bool = True
    "Whether evaluations during training can afford answers, not only the loss."

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    def state(self) -> TaskState:
        """State for `restore_problem`; by default empty."""
        return {}

    @abstractmethod
    def examples(self, record: Record) -> list[Example]:
        """Training examples of a record: one row, or several windows of it."""

    def randomise(self, example: Example, generator: np.random.Generator) -> Example:
        """The example with this epoch's random draws (masks); by default unchanged."""
        return example

    @abstractmethod
    def attach_head(self, model: TokenModel, *, seed: int) -> AnyModel:
        """The model with this problem's head, or unchanged; refused where its capabilities do not
        fit."""

    @abstractmethod
    def answer(
        self,
        model: AnyModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        """One result row for each record: the truth (where the record has it), the prediction, its
        confidence, and the fields that the metric needs."""

    def answer_in_training(
        self, model: AnyModel, records: Sequence[Record], *, device: str = "cpu"
    ) -> list[Row]:
        """Answers for an evaluation during training, as cheap as the metric allows."""
        return self.answer(model, records, device=device)

    def loss_and_answers(
        self, model: AnyModel, records: Sequence[Record], *, device: str = "cpu"
    ) -> tuple[float, list[Row]]:
        """For an evaluation during training: the loss as in training, and answers if they are fast;
        by default two passes."""
        examples = [example for record in records for example in self.examples(record)]
        loss = mean_loss(model, examples, pad=self.tools.tokenizer.padding_id, device=device)
        if not self.is_fast_to_answer:
            return loss, []
        return loss, self.answer_in_training(model, records, device=device)

    @abstractmethod
    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        """Label and answers of each baseline, for the same records."""

    def remarks(self, train: Sequence[Record]) -> list[str]:
        """What users should know about the training rows before training."""
        return []

    def tune(self, model: AnyModel, dev: Sequence[Record], *, device: str = "cpu") -> list[str]:
        """Choose thresholds on dev after training; returns remarks. By default nothing."""
        return []

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        """What is wrong with the predictions as a whole, a sentence each."""
        return ()

    def collapse(self, answers: Sequence[Row]) -> str:
        """How the predictions have collapsed (one class for all rows), in words; empty if not."""
        return ""

    def tables(self, answers: Sequence[Row], *, split: str) -> Mapping[str, list[Row]]:
        """Breakdowns of the scores, by table name: a score by length, for instance."""
        return {}

    def positions_to_answer(self, record: Record) -> int:
        """Approximate cost of an answer in positions through the model, for the forecast."""
        return sum(map(example_length, self.examples(record)))

    def positions_to_answer_in_training(self, record: Record) -> int:
        return self.positions_to_answer(record)

    def truncated_tokens(self, record: Record) -> int:
        """Tokens of a record that the context cuts off."""
        return 0


def sequence_example(sequence: InputSequence, labels: NDArray[Any]) -> Example:
    """An example with labels of the row as a whole: it counts once, whatever its length."""
    ids = np.asarray(sequence.ids, dtype=np.int64)
    weights = np.zeros(len(ids), dtype=np.float32)
    weights[0] = 1.0
    return Example(ids, ids, weights, np.asarray(sequence.segments, dtype=np.int64), labels=labels)


def example_batches(
    examples: Sequence[Example],
    *,
    pad: int,
    device: str = "cpu",
    max_positions: int = MAX_BATCH_POSITIONS,
) -> Iterator[tuple[list[int], Batch]]:
    """Examples in batches of similar length, each with the indices of its examples."""
    lengths = [example_length(example) for example in examples]
    for chosen in sorted_batches(lengths, budget=max([max_positions, *lengths])):
        indices = chosen.tolist()
        batch = collate([examples[i] for i in indices], pad_id=pad, rows=indices)
        yield indices, batch.to(device)


def predict_examples(
    examples: Sequence[Example],
    predict: Callable[[Batch], Iterable[Prediction]],
    *,
    pad: int,
    device: str,
    on_progress: OnProgress,
) -> list[Prediction]:
    """The prediction for each example, in order; `predict` gets batches of similar length."""
    predictions: dict[int, Prediction] = {}
    for indices, batch in example_batches(examples, pad=pad, device=device):
        predictions |= zip(indices, predict(batch), strict=True)
        on_progress(len(predictions), len(examples))
    return [predictions[index] for index in range(len(examples))]


def example_length(example: Example) -> int:
    """Positions of an example: its row, and its source where it has one."""
    return len(example.inputs) + (0 if example.source is None else len(example.source))


@torch.inference_mode()
def mean_loss(model: Model, examples: Sequence[Example], *, pad: int, device: str) -> float:
    """Weighted mean of all loss terms, as in training."""
    mean = MeanLoss()
    for _, batch in example_batches(examples, pad=pad, device=device):
        mean.add(model(batch), batch)
    return mean.value


@dataclass
class MeanLoss:
    """The weighted mean of all loss terms over batches."""

    total: float = 0.0
    weight: float = 0.0

    def add(self, terms: Mapping[str, LossTerm], batch: Batch) -> None:
        self.total += sum(float(term.sum) for term in terms.values())
        self.weight += float(batch.weights.sum())

    @property
    def value(self) -> float:
        return self.total / max(self.weight, 1e-9)


def check_family(model: TokenModel, hint: str, *, fits: bool) -> None:
    """Refuse a model of a family that the task does not support."""
    if not fits:
        raise UserError(
            f"this task cannot be put on a {type(model).__name__}", topic="recipe", hint=hint
        )
