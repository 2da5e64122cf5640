"""Visual question answering on digits: an image as patches and a question as words, in one row.

[CLS] question [SEP] patches  ─►  encoder, pooled at the first position  ─►  one of train's answers

A question-only baseline shows what can be guessed without the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from regard.batch import Example
from regard.data.record_corpus import Record
from regard.evaluation.baselines.tfidf import TextOrPair, TfidfClassifier, question_only
from regard.models.model import TokenModel
from regard.models.task_models.task_model import SequenceClassifier
from regard.tasks import TASKS, TaskState, Tools
from regard.tasks.classification.labels import ClassifierProblem, ClassifierTask, PoolingChoice
from regard.tasks.vision.images import ImageTask


@TASKS.add("digits", families=("encoder",))
class Digits(ImageTask, ClassifierTask):
    """Answer a question about an image."""

    label: str = "answer"
    "The column that holds the answer."
    pooling: PoolingChoice = "auto"
    "Pooled position: first, last, or the mean of all; auto: the first."

    column_roles: ClassVar = ("question", "image", "label")

    def restore_problem(self, state: TaskState, tools: Tools) -> DigitsProblem:
        return DigitsProblem(self, tools, state["labels"])


class DigitsProblem(ClassifierProblem):
    task: Digits

    def __init__(self, task: Digits, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(task, tools, labels, pooling=task.pooling)
        self.metric = replace(self.metric, items="questions")

    def attach_head(self, model: TokenModel, *, seed: int) -> SequenceClassifier:
        self.task.check_patches(model)
        return super().attach_head(model, seed=seed)

    def examples(self, record: Record) -> list[Example]:
        return [self.task.add_image(example, record) for example in super().examples(record)]

    def fit_words(self, rows: Sequence[TextOrPair], labels: Sequence[str]) -> TfidfClassifier[str]:
        return question_only([str(row) for row in rows], labels)
