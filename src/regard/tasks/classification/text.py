"""Text classification: one label a text (sentiment, topics).

[CLS] text [SEP]  ─►  encoder, pooled at the first position
<start> text <stop>  ─►  decoder, pooled at the last position, which attends to the whole text
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.data.special_tokens import InputSequence, delimited_sequence, single_sequence
from regard.tasks import TASKS, Task, TaskState, Tools
from regard.tasks.classification.labels import (
    Baseline,
    ClassifierProblem,
    PoolingChoice,
    collect_labels,
    tfidf_baseline,
)


@TASKS.add("classification", families=("encoder", "decoder"))
class Classification(Task):
    """Classify a text."""

    text: str = "text"
    "The column that holds the text."
    label: str = "label"
    "The column that holds the label."
    pooling: PoolingChoice = "auto"
    "Pooled position: first, last, or the mean of all; auto: an encoder's first, a decoder's last."

    column_roles: ClassVar = ("text", "label")
    target_roles: ClassVar = ("label",)
    score_names: ClassVar = ("accuracy", "macro_f1", "mcc")

    def build_problem(self, train: Sequence[Record], tools: Tools) -> TextProblem:
        return TextProblem(self, tools, collect_labels(train))

    def restore_problem(self, state: TaskState, tools: Tools) -> TextProblem:
        return TextProblem(self, tools, state["labels"])

    def texts(self, record: Record) -> list[str]:
        return [record["text"]]


class TextProblem(ClassifierProblem):
    def __init__(self, task: Classification, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(tools, labels, pooling=task.pooling)

    def build_input(self, record: Record) -> InputSequence:
        build = delimited_sequence if self.tools.family == "decoder" else single_sequence
        ids = self.tools.tokenizer.encode(record["text"])
        return build(ids, self.tools.tokenizer, limit=self.tools.context)

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[Baseline]:
        yield from super().baselines(train, evaluated)
        yield tfidf_baseline(train, evaluated, words=lambda record: str(record["text"]))
