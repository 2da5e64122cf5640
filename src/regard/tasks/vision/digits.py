"""Visual question answering on digits: an image as patches and a question as words, in one row.

[CLS] question [SEP] patches  ─►  encoder, pooled at the first position  ─►  one of train's answers

A question-only baseline shows what can be guessed without the image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from regard.batch import Example
from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.data.special_tokens import InputSequence
from regard.evaluation.baselines.tfidf import question_only
from regard.evaluation.metrics.metric import Row
from regard.models.model import TokenModel
from regard.models.task_models.task_model import SequenceClassifier
from regard.tasks import TASKS, TaskState, Tools
from regard.tasks.classification.labels import (
    ClassifierProblem,
    PoolingChoice,
    collect_labels,
    label_rows,
    record_label,
)
from regard.tasks.vision.images import ImageTask


@TASKS.add("digits", families=("encoder",))
class Digits(ImageTask):
    """Answer a question about an image."""

    label: str = "answer"
    "The column that holds the answer."
    pooling: PoolingChoice = "auto"
    "Pooled position: first, last, or the mean of all; auto: the first."

    column_roles: ClassVar = ("question", "image", "label")
    target_roles: ClassVar = ("label",)
    score_names: ClassVar = ("accuracy", "macro_f1", "mcc")

    def build_problem(self, train: Sequence[Record], tools: Tools) -> DigitsProblem:
        return DigitsProblem(self, tools, collect_labels(train))

    def restore_problem(self, state: TaskState, tools: Tools) -> DigitsProblem:
        return DigitsProblem(self, tools, state["labels"])


class DigitsProblem(ClassifierProblem):
    def __init__(self, task: Digits, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(tools, labels, pooling=task.pooling)
        self.task = task
        self.metric = replace(self.metric, items="questions")

    def build_input(self, record: Record) -> InputSequence:
        return self.task.build_input(record, self.tools)

    def attach_head(self, model: TokenModel, *, seed: int) -> SequenceClassifier:
        self.task.check_patches(model)
        return super().attach_head(model, seed=seed)

    def examples(self, record: Record) -> list[Example]:
        return [self.task.add_image(example, record) for example in super().examples(record)]

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        yield from super().baselines(train, evaluated)
        baseline = question_only([r["question"] for r in train], [record_label(r) for r in train])
        yield (
            baseline.label,
            {
                split: label_rows(rows, baseline.predict([r["question"] for r in rows]))
                for split, rows in evaluated.items()
            },
        )
