"""Pair classification: one label for two texts (boolean questions, entailment).

[CLS] first [SEP] second [SEP]  ─►  encoder, pooled at the first position
<start> first [SEP] second <stop>  ─►  decoder, pooled at the last position
"""

from __future__ import annotations

from typing import ClassVar

from regard.data.record_corpus import Record
from regard.data.special_tokens import InputSequence, sequence_pair, source_target_sequence
from regard.tasks import TASKS, TaskState, Tools
from regard.tasks.classification.labels import ClassifierProblem, ClassifierTask, PoolingChoice


@TASKS.add("pairs", families=("encoder", "decoder"))
class PairClassification(ClassifierTask):
    """Classify a pair of texts."""

    first: str = "first"
    "The column that holds the first text: the question, the premise."
    second: str = "second"
    "The column that holds the second text: the passage, the claim."
    label: str = "label"
    "The column that holds the label."
    pooling: PoolingChoice = "auto"
    "Pooled position: first, last, or the mean of all; auto: an encoder's first, a decoder's last."

    column_roles: ClassVar = ("first", "second", "label")
    role_types: ClassVar = {"second": "text", "label": "label"}

    def restore_problem(self, state: TaskState, tools: Tools) -> ClassifierProblem:
        return ClassifierProblem(self, tools, state["labels"], pooling=self.pooling)

    def texts(self, record: Record) -> list[str]:
        return [record["first"], record["second"]]

    def build_input(self, record: Record, tools: Tools) -> InputSequence:
        tokenizer = tools.tokenizer
        build = source_target_sequence if tools.family == "decoder" else sequence_pair
        first, second = map(tokenizer.encode, self.texts(record))
        return build(first, second, roles=tokenizer, limit=tools.context)
