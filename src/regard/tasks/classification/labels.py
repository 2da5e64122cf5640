"""Rows that have one label each: what classification of texts and of pairs share.

    p(label | row) = softmax(W · pooled + b)        loss = −log p(true label)

The labels are those of the training rows, in their natural order. A label that only judged rows
have can never be answered, so it counts as an error, and is said. How shares of labels become
answers is the same where a decoder tells labels in words (`verbalised.py`): `Labelling`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from regard.batch import Example
from regard.core.errors import UserError
from regard.data.corpus import Split
from regard.data.packing import Packed
from regard.data.record_corpus import Record
from regard.evaluation.baselines.tfidf import Row as Words
from regard.evaluation.baselines.tfidf import TfIdf
from regard.evaluation.baselines.trivial import majority
from regard.evaluation.health.predictions import collapsed, prediction_health
from regard.evaluation.metrics.classification import ClassificationMetric as ClassificationMeasure
from regard.evaluation.metrics.metric import Row
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.heads.heads import ClassificationHead, Pooling
from regard.models.model import Model
from regard.models.task_models.task_model import SequenceClassifier
from regard.tasks import OnProgress, Problem, TaskState, Tools, refuse_family, told_of, untold

Pooled = Literal["auto", "first", "mean", "last"]
Baseline = tuple[str, Mapping[Split, list[Row]]]

NAMED = 5
"Labels that a remark names, at most."


class Labelling(Problem):
    """Tell the label of each row, whatever makes one label likelier than another."""

    def __init__(self, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(tools)
        self.labels = tuple(labels)
        self.measure = ClassificationMeasure(self.labels)
        self._number = {label: number for number, label in enumerate(self.labels)}

    def learnt(self) -> TaskState:
        return {"labels": list(self.labels)}

    def number_of(self, record: Record) -> int:
        """Of its label; a row to answer has none, and one never met counts as the first until it
        is answered."""
        return self._number.get(label_of(record), 0) if "label" in record else 0

    def remarks(self, train: Sequence[Record]) -> list[str]:
        counts = Counter(label_of(record) for record in train)
        lone = [repr(label) for label in self.labels if counts[label] == 1]
        if not lone:
            return []
        named = ", ".join(lone[:NAMED]) + (", …" if len(lone) > NAMED else "")
        which = "label has" if len(lone) == 1 else "labels have"
        return [
            f"{len(lone):,} {which} one training row alone, too little to learn a class from: "
            f"{named}. Give more such rows, or join the label with another"
        ]

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        health = prediction_health(*_both(answers))
        unseen = Counter(row["truth"] for row in answers if row["truth"] not in self._number)
        told = tuple(
            f"label {label!r} of {n:,} rows is in no training row, so they cannot be right"
            for label, n in unseen.items()
        )
        return health + told

    def collapse(self, answers: Sequence[Row]) -> str:
        return collapsed(*_both(answers))

    def baselines(
        self, train: Sequence[Record], judged: Mapping[Split, Sequence[Record]]
    ) -> Iterator[Baseline]:
        labels = [label_of(record) for record in train]
        yield (
            "majority class",
            {part: told(rows, majority(labels, len(rows))) for part, rows in judged.items()},
        )

    def answer_row(self, number: int, record: Record, log_shares: np.ndarray) -> Row:
        """What is answered to a record, from the log of how probable each label is."""
        best = int(log_shares.argmax())
        row = {
            "item": number,
            "predicted": self.labels[best],
            "confidence": float(np.exp(log_shares[best])),
        }
        if "label" in record:
            truth = label_of(record)
            row["truth"] = truth
            if truth in self._number:
                row["loss"] = float(-log_shares[self._number[truth]])
        return row


class LabelProblem(Labelling):
    """By a head that reads the row as a whole."""

    def __init__(self, tools: Tools, labels: Sequence[str], *, pooling: Pooled) -> None:
        super().__init__(tools, labels)
        self.pooling = pooling

    @abstractmethod
    def pack(self, record: Record) -> Packed:
        """The one row that the model reads."""

    def fit(self, model: Model, *, seed: int) -> Model:
        refuse_family(model, SequenceModel, 'Set model.family = "encoder" or "decoder".')
        assert isinstance(model, SequenceModel)
        width = model.head.width
        head = ClassificationHead(width, labels=len(self.labels), pooling=self._pooling())
        return SequenceClassifier(model, head, seed=seed)

    def examples(self, record: Record) -> list[Example]:
        packed = self.pack(record)
        ids = np.asarray(packed.ids, dtype=np.int64)
        weights = np.zeros(len(ids), dtype=np.float32)
        weights[0] = 1.0  # a row counts once, however long it is
        segments = np.asarray(packed.segments, dtype=np.int64)
        return [Example(ids, ids, weights, segments, labels=np.array([self.number_of(record)]))]

    def answer(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = untold,
    ) -> list[Row]:
        assert isinstance(model, SequenceClassifier)
        examples = [example for record in records for example in self.examples(record)]
        shares = told_of(
            examples,
            lambda batch: model.log_shares(batch).double().cpu().numpy(),
            pad=self.tools.tokenizer.padding,
            device=device,
            on_progress=on_progress,
        )
        return [
            self.answer_row(number, record, share)
            for number, (record, share) in enumerate(zip(records, shares, strict=True))
        ]

    def lost(self, record: Record) -> int:
        return self.pack(record).lost

    def _pooling(self) -> Pooling:
        if self.pooling != "auto":
            return self.pooling
        return "last" if self.tools.family == "decoder" else "first"


def from_words(
    train: Sequence[Record],
    judged: Mapping[Split, Sequence[Record]],
    *,
    words: Callable[[Record], Words],
) -> Baseline:
    """What the words of a row alone tell of its label."""
    counted = TfIdf([words(record) for record in train], [label_of(record) for record in train])
    return (
        counted.label,
        {
            part: told(rows, counted.predict([words(record) for record in rows]))
            for part, rows in judged.items()
        },
    )


def told(records: Sequence[Record], predicted: Sequence[str]) -> list[Row]:
    """Answers that come without a confidence, as a baseline's do."""
    return [
        {"item": number, "truth": label_of(record), "predicted": label}
        for number, (record, label) in enumerate(zip(records, predicted, strict=True))
    ]


def labels_of(train: Sequence[Record]) -> list[str]:
    """The labels there are to tell; one alone leaves nothing to learn."""
    counts = Counter(label_of(record) for record in train)
    if len(counts) < 2:
        only = next(iter(counts), "")
        raise UserError(
            f"every training row has the label {only!r}, so there is nothing to tell apart",
            topic="task",
            hint="Give rows of at least two labels, or set task.label to another column.",
        )
    return sorted(counts, key=natural)


def label_of(record: Record) -> str:
    """Labels are compared as text: 1 and "1" are the same."""
    value = record["label"]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip()


def natural(label: str) -> tuple[int, float, str]:
    """Numbers by size, then words by letters."""
    try:
        return (0, float(label), label)
    except ValueError:
        return (1, 0.0, label)


def _both(answers: Sequence[Row]) -> tuple[list[str], list[str]]:
    """What was answered, and what is true."""
    return [row["predicted"] for row in answers], [row["truth"] for row in answers]
