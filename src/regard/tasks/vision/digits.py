"""Digits question answering: a picture as patches and a question as words, in one row.

[CLS] question [SEP] patches  ─►  encoder, read at its first place  ─►  one of the answers of train

Beside it stands what the question alone gives away: whoever does not look at the picture gets that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from regard.batch import Example
from regard.data.corpus import Split
from regard.data.packing import Packed
from regard.data.record_corpus import Record
from regard.evaluation.baselines.tfidf import question_only
from regard.evaluation.metrics.metric import Row
from regard.models.model import Model
from regard.tasks import TASKS, TaskState, Tools
from regard.tasks.classification.labels import LabelProblem, Pooled, label_of, labels_of, told
from regard.tasks.vision.images import ImageTask


@TASKS.add("digits", families=("encoder",))
class Digits(ImageTask):
    """Answer a question about a picture."""

    label: str = "answer"
    "The column that holds the answer."
    pooling: Pooled = "auto"
    "Which place answers: first, last, the mean of all; auto: the first."

    columns_wanted: ClassVar = ("question", "image", "label")
    columns_told: ClassVar = ("label",)
    metrics: ClassVar = ("accuracy", "macro_f1", "mcc")

    def open(self, train: Sequence[Record], tools: Tools) -> DigitsProblem:
        return DigitsProblem(self, tools, labels_of(train))

    def reopen(self, learnt: TaskState, tools: Tools) -> DigitsProblem:
        return DigitsProblem(self, tools, learnt["labels"])


class DigitsProblem(LabelProblem):
    def __init__(self, task: Digits, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(tools, labels, pooling=task.pooling)
        self.task = task
        self.measure = replace(self.measure, items="questions")

    def pack(self, record: Record) -> Packed:
        return self.task.pack(record, self.tools)

    def fit(self, model: Model, *, seed: int) -> Model:
        return super().fit(self.task.reader(model), seed=seed)

    def examples(self, record: Record) -> list[Example]:
        return [self.task.pictured(packed, record) for packed in super().examples(record)]

    def baselines(
        self, train: Sequence[Record], judged: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        yield from super().baselines(train, judged)
        blind = question_only([r["question"] for r in train], [label_of(r) for r in train])
        yield (
            blind.label,
            {
                part: told(rows, blind.predict([r["question"] for r in rows]))
                for part, rows in judged.items()
            },
        )
