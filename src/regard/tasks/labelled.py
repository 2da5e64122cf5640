"""Rows that have one label each: what classification of texts and of pairs share.

    p(label | row) = softmax(W · pooled + b)        loss = −log p(true label)

The labels are those of the training rows, in their natural order. A label that only judged rows
have can never be answered, so it counts as an error, and is said.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from regard.errors import UserError
from regard.metrics.classification import Classification as ClassificationMeasure
from regard.metrics.measure import Row
from regard.model.headed import LabelModel
from regard.model.heads import ClassificationHead, Pooling
from regard.model.model import Model
from regard.model.row_model import RowModel
from regard.tasks import Learnt, OnProgress, Problem, Tools, refuse_family, told_of, untold
from regard.text.batches import Example
from regard.text.corpus import Part
from regard.text.packing import Packed
from regard.text.record_corpus import Record
from regard.trust.predictions import prediction_health
from regard.trust.task_baselines import majority

Pooled = Literal["auto", "first", "mean", "last"]


class LabelProblem(Problem):
    """Tell the label of each row."""

    def __init__(self, tools: Tools, labels: Sequence[str], *, pooling: Pooled) -> None:
        super().__init__(tools)
        self.labels = tuple(labels)
        self.pooling = pooling
        self.measure = ClassificationMeasure(self.labels)
        self._number = {label: number for number, label in enumerate(self.labels)}

    @abstractmethod
    def pack(self, record: Record) -> Packed:
        """The one row that the model reads."""

    def learnt(self) -> Learnt:
        return {"labels": list(self.labels)}

    def fit(self, model: Model, *, seed: int) -> Model:
        refuse_family(model, RowModel, 'Set model.family = "encoder" or "decoder".')
        assert isinstance(model, RowModel)
        width = model.head.width
        head = ClassificationHead(width, labels=len(self.labels), pooling=self._pooling())
        return LabelModel(model, head, seed=seed)

    def examples(self, record: Record) -> list[Example]:
        packed = self.pack(record)
        ids = np.asarray(packed.ids, dtype=np.int64)
        weights = np.zeros(len(ids), dtype=np.float32)
        weights[0] = 1.0  # a row counts once, however long it is
        # A row to answer has no label, and one never met counts as the first until it is answered.
        known = label_of(record) if "label" in record else ""
        label = np.array([self._number.get(known, 0)])
        segments = np.asarray(packed.segments, dtype=np.int64)
        return [Example(ids, ids, weights, segments, labels=label)]

    def answer(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = untold,
    ) -> list[Row]:
        assert isinstance(model, LabelModel)
        examples = [example for record in records for example in self.examples(record)]
        shares = told_of(
            examples,
            lambda batch: model.log_shares(batch).double().cpu().numpy(),
            pad=self.tools.tokenizer.require("pad"),
            device=device,
            on_progress=on_progress,
        )
        return [
            self._row(number, record, share)
            for number, (record, share) in enumerate(zip(records, shares, strict=True))
        ]

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        health = prediction_health(
            [row["predicted"] for row in answers], [row["truth"] for row in answers]
        )
        unseen = Counter(row["truth"] for row in answers if row["truth"] not in self._number)
        told = tuple(
            f"label {label!r} of {n:,} rows is in no training row, so they cannot be right"
            for label, n in unseen.items()
        )
        return health + told

    def baselines(
        self, train: Sequence[Record], judged: Mapping[Part, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Part, list[Row]]]]:
        labels = [label_of(record) for record in train]
        yield (
            "majority class",
            {part: told(rows, majority(labels, len(rows))) for part, rows in judged.items()},
        )

    def _row(self, number: int, record: Record, log_shares: np.ndarray) -> Row:
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

    def lost(self, record: Record) -> int:
        return self.pack(record).lost

    def _pooling(self) -> Pooling:
        if self.pooling != "auto":
            return self.pooling
        return "last" if self.tools.family == "decoder" else "first"


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
            mend="Give rows of at least two labels, or set task.label to another column.",
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
