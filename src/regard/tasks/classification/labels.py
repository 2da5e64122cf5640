"""Sequence classification: the base of all tasks with one label a row.

    p(label | row) = softmax(W · pooled + b)        loss = −log p(true label)

The labels are those of the training rows, in natural order. A label that occurs only in evaluated
rows can never be predicted: it counts as an error and is reported. `LabelProblem` turns label
probabilities into answers, also for the verbalizer (`verbalizer.py`); `ClassifierProblem` gets them
from a classification head, on the input that its `ClassifierTask` builds of a row.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from regard.batch import Batch, Example
from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.data.special_tokens import InputSequence
from regard.evaluation.baselines.tfidf import TextOrPair, TfidfClassifier
from regard.evaluation.baselines.trivial import majority_label
from regard.evaluation.health.predictions import collapse_warning, prediction_health
from regard.evaluation.metrics.classification import ClassificationMetric
from regard.evaluation.metrics.metric import Row
from regard.models.heads.task_heads import ClassificationHead, Pooling
from regard.models.model import TokenModel
from regard.models.task_models.task_model import SequenceClassifier, label_loss
from regard.tasks import (
    AnyModel,
    MeanLoss,
    Problem,
    Task,
    TaskState,
    Tools,
    check_family,
    predict_examples,
    sequence_example,
)

PoolingChoice = Literal["auto", "first", "mean", "last"]

MAX_NAMED_LABELS = 5
"Maximum labels that a remark names."


class LabelTask(Task):
    """Settings of tasks with one label a row."""

    target_roles: ClassVar = ("label",)
    score_names: ClassVar = ("accuracy", "macro_f1", "mcc")

    def build_problem(self, train: Sequence[Record], tools: Tools) -> Problem[Any]:
        return self.restore_problem({"labels": collect_labels(train)}, tools)


class ClassifierTask(LabelTask):
    """Settings of tasks with a classification head."""

    @abstractmethod
    def build_input(self, record: Record, tools: Tools) -> InputSequence:
        """The model's input for a record."""


class LabelProblem(Problem[AnyModel]):
    """Predict the label of each row; subclasses compute the label probabilities."""

    def __init__(self, task: LabelTask, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(tools)
        self.task = task
        self.labels = tuple(labels)
        self.metric = ClassificationMetric(self.labels)
        self._index = {label: index for index, label in enumerate(self.labels)}

    def state(self) -> TaskState:
        return {"labels": list(self.labels)}

    def label_index(self, record: Record) -> int:
        """Index of a row's label; 0 as a placeholder where the row has none or an unknown one."""
        return self._index.get(record_label(record), 0) if "label" in record else 0

    def remarks(self, train: Sequence[Record]) -> list[str]:
        counts = Counter(record_label(record) for record in train)
        single = [repr(label) for label in self.labels if counts[label] == 1]
        if not single:
            return []
        named = ", ".join(single[:MAX_NAMED_LABELS])
        named += ", …" if len(single) > MAX_NAMED_LABELS else ""
        which = "label has" if len(single) == 1 else "labels have"
        return [
            f"{len(single):,} {which} only one training row, too few to learn a class: "
            f"{named}. Give more such rows, or merge the label with another"
        ]

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        health = prediction_health(*_predictions_and_truths(answers))
        unseen = Counter(row["truth"] for row in answers if row["truth"] not in self._index)
        return health + tuple(
            f"label {label!r} of {n:,} rows is in no training row, so they cannot be right"
            for label, n in unseen.items()
        )

    def collapse(self, answers: Sequence[Row]) -> str:
        return collapse_warning(*_predictions_and_truths(answers))

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        labels = [record_label(record) for record in train]
        yield (
            "majority class",
            {
                split: label_rows(rows, majority_label(labels, len(rows)))
                for split, rows in evaluated.items()
            },
        )
        classifier = self.fit_words([self._words(record) for record in train], labels)
        yield (
            classifier.label,
            {
                split: label_rows(rows, classifier.predict([self._words(row) for row in rows]))
                for split, rows in evaluated.items()
            },
        )

    def fit_words(self, rows: Sequence[TextOrPair], labels: Sequence[str]) -> TfidfClassifier[str]:
        """The baseline that sees the words of a row alone."""
        return TfidfClassifier(rows, labels)

    @abstractmethod
    def logprobs(
        self,
        model: AnyModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> Sequence[np.ndarray]:
        """(c) for each record: the log-probability of each label."""

    def answer(
        self,
        model: AnyModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        logprobs = self.logprobs(model, records, device=device, on_progress=on_progress)
        return self.answer_rows(records, logprobs)

    def answer_rows(self, records: Sequence[Record], logprobs: Sequence[np.ndarray]) -> list[Row]:
        return [
            self.answer_row(item, *pair)
            for item, pair in enumerate(zip(records, logprobs, strict=True))
        ]

    def answer_row(self, item: int, record: Record, logprobs: np.ndarray) -> Row:
        """The result row of a record, from the log-probability of each label."""
        best = int(logprobs.argmax())
        row = {
            "item": item,
            "predicted": self.labels[best],
            "confidence": float(np.exp(logprobs[best])),
        }
        if "label" in record:
            truth = record_label(record)
            row["truth"] = truth
            if truth in self._index:
                row["loss"] = float(-logprobs[self._index[truth]])
        return row

    def _words(self, record: Record) -> TextOrPair:
        texts = self.task.input_texts(record)
        return (texts[0], texts[1]) if len(texts) == 2 else " ".join(texts)


class ClassifierProblem(LabelProblem[SequenceClassifier]):
    """Predict labels with a classification head on a pooled hidden state."""

    task: ClassifierTask

    def __init__(
        self, task: ClassifierTask, tools: Tools, labels: Sequence[str], *, pooling: PoolingChoice
    ) -> None:
        super().__init__(task, tools, labels)
        self.pooling = pooling

    def attach_head(self, model: TokenModel, *, seed: int) -> SequenceClassifier:
        hint = 'Set model.family = "encoder" or "decoder".'
        check_family(model, hint, fits=model.reads == "row")
        width = model.head.width
        head = ClassificationHead(width, labels=len(self.labels), pooling=self._pooling())
        return SequenceClassifier(model, head, seed=seed)

    def examples(self, record: Record) -> list[Example]:
        sequence = self.task.build_input(record, self.tools)
        return [sequence_example(sequence, np.array([self.label_index(record)]))]

    def logprobs(
        self,
        model: SequenceClassifier,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> Sequence[np.ndarray]:
        examples = [example for record in records for example in self.examples(record)]
        return predict_examples(
            examples,
            lambda batch: model.logprobs(batch).cpu().double().numpy(),
            pad=self.tools.tokenizer.padding_id,
            device=device,
            on_progress=on_progress,
        )

    @torch.inference_mode()
    def loss_and_answers(
        self, model: SequenceClassifier, records: Sequence[Record], *, device: str = "cpu"
    ) -> tuple[float, list[Row]]:
        # One pass: both come from the same logits.
        loss = MeanLoss()

        def predict(batch: Batch) -> np.ndarray:
            logits = model.logits(batch)
            loss.add(label_loss(logits, batch), batch)
            return logits.log_softmax(dim=-1).cpu().double().numpy()

        logprobs = predict_examples(
            [example for record in records for example in self.examples(record)],
            predict,
            pad=self.tools.tokenizer.padding_id,
            device=device,
            on_progress=no_progress,
        )
        return loss.value, self.answer_rows(records, logprobs)

    def positions_to_answer_in_training(self, record: Record) -> int:
        return 0  # the loss has passed them

    def truncated_tokens(self, record: Record) -> int:
        return self.task.build_input(record, self.tools).truncated

    def _pooling(self) -> Pooling:
        if self.pooling != "auto":
            return self.pooling
        return "last" if self.tools.family == "decoder" else "first"


def label_rows(records: Sequence[Record], predicted: Sequence[str]) -> list[Row]:
    """Result rows of predictions without a confidence, as a baseline's are."""
    return [
        {"item": item, "truth": record_label(record), "predicted": label}
        for item, (record, label) in enumerate(zip(records, predicted, strict=True))
    ]


def collect_labels(train: Sequence[Record]) -> list[str]:
    """The labels of the training rows, in natural order; fewer than two are refused."""
    counts = Counter(record_label(record) for record in train)
    if len(counts) < 2:
        only = next(iter(counts), "")
        raise UserError(
            f"every training row has the label {only!r}, so there is nothing to classify",
            topic="task",
            hint="Give rows of at least two labels, or set task.label to another column.",
        )
    return sorted(counts, key=natural_sort_key)


def record_label(record: Record) -> str:
    """A row's label as text: 1 and "1" are equal."""
    value = record["label"]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip()


def natural_sort_key(label: str) -> tuple[int, float, str]:
    """Sort key: numbers by value, then words alphabetically."""
    try:
        return (0, float(label), label)
    except ValueError:
        return (1, 0.0, label)


def _predictions_and_truths(answers: Sequence[Row]) -> tuple[list[str], list[str]]:
    return [row["predicted"] for row in answers], [row["truth"] for row in answers]
