"""Pair classification: one label for two texts (boolean questions, entailment).

[CLS] first [SEP] second [SEP]  ─►  encoder, pooled at the first position
<start> first [SEP] second <stop>  ─►  decoder, pooled at the last position
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.data.special_tokens import InputSequence, sequence_pair, source_target_sequence
from regard.tasks import TASKS, Task, TaskState, Tools
from regard.tasks.classification.labels import (
    Baseline,
    ClassifierProblem,
    PoolingChoice,
    collect_labels,
    tfidf_baseline,
)


@TASKS.add("pairs", families=("encoder", "decoder"))
class PairClassification(Task):
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
    target_roles: ClassVar = ("label",)
    score_names: ClassVar = ("accuracy", "macro_f1", "mcc")
    role_types: ClassVar = {"second": "text"}

    def build_problem(self, train: Sequence[Record], tools: Tools) -> PairProblem:
        return PairProblem(self, tools, collect_labels(train))

    def restore_problem(self, state: TaskState, tools: Tools) -> PairProblem:
        return PairProblem(self, tools, state["labels"])

    def texts(self, record: Record) -> list[str]:
        return [record["first"], record["second"]]


class PairProblem(ClassifierProblem):
    def __init__(self, task: PairClassification, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(tools, labels, pooling=task.pooling)

    def build_input(self, record: Record) -> InputSequence:
        tokenizer = self.tools.tokenizer
        build = source_target_sequence if self.tools.family == "decoder" else sequence_pair
        first, second = (tokenizer.encode(record[role]) for role in ("first", "second"))
        return build(first, second, roles=tokenizer, limit=self.tools.context)

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[Baseline]:
        yield from super().baselines(train, evaluated)
        yield tfidf_baseline(train, evaluated, words=lambda row: (row["first"], row["second"]))
