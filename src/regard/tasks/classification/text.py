"""Text classification: one label a text (sentiment, topics).

[CLS] text [SEP]  ─►  encoder, pooled at the first position
<start> text <stop>  ─►  decoder, pooled at the last position, which attends to the whole text
"""

from __future__ import annotations

from typing import ClassVar

from regard.data.record_corpus import Record
from regard.data.special_tokens import InputSequence
from regard.tasks import TASKS, TaskState, Tools
from regard.tasks.classification.labels import ClassifierProblem, ClassifierTask, PoolingChoice
from regard.tasks.retrieval.sentence_embeddings import encode_text


@TASKS.add("classification", families=("encoder", "decoder"))
class Classification(ClassifierTask):
    """Classify a text."""

    text: str = "text"
    "The column that holds the text."
    label: str = "label"
    "The column that holds the label."
    pooling: PoolingChoice = "auto"
    "Pooled position: first, last, or the mean of all; auto: an encoder's first, a decoder's last."

    column_roles: ClassVar = ("text", "label")
    role_types: ClassVar = {"label": "label"}

    def restore_problem(self, state: TaskState, tools: Tools) -> ClassifierProblem:
        return ClassifierProblem(self, tools, state["labels"], pooling=self.pooling)

    def texts(self, record: Record) -> list[str]:
        return [record["text"]]

    def build_input(self, record: Record, tools: Tools) -> InputSequence:
        return encode_text(record["text"], tools)
