"""Pair classification: one label for two texts (does the passage say yes, does the claim follow).

[CLS] first [SEP] second [SEP]  ─►  encoder, read at its first place
<start> first [SEP] second <stop>  ─►  decoder, read at its last place
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from regard.data.corpus import Split
from regard.data.packing import Packed, pair, source_to_target
from regard.data.record_corpus import Record
from regard.tasks import TASKS, Task, TaskState, Tools
from regard.tasks.classification.labels import Baseline, LabelProblem, Pooled, from_words, labels_of


@TASKS.add("pairs", families=("encoder", "decoder"))
class PairClassification(Task):
    """Tell the label of two texts."""

    first: str = "first"
    "The column that holds the first text: the question, the premise."
    second: str = "second"
    "The column that holds the second text: the passage, the claim."
    label: str = "label"
    "The column that holds the label."
    pooling: Pooled = "auto"
    "Which place answers: first, last, the mean of all; auto: an encoder's first, a decoder's last."

    columns_wanted: ClassVar = ("first", "second", "label")
    columns_told: ClassVar = ("label",)
    metrics: ClassVar = ("accuracy", "macro_f1", "mcc")
    columns_hold: ClassVar = {"second": "text"}

    def open(self, train: Sequence[Record], tools: Tools) -> PairProblem:
        return PairProblem(self, tools, labels_of(train))

    def reopen(self, learnt: TaskState, tools: Tools) -> PairProblem:
        return PairProblem(self, tools, learnt["labels"])

    def texts(self, record: Record) -> list[str]:
        return [record["first"], record["second"]]


class PairProblem(LabelProblem):
    def __init__(self, task: PairClassification, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(tools, labels, pooling=task.pooling)

    def pack(self, record: Record) -> Packed:
        tokenizer = self.tools.tokenizer
        form = source_to_target if self.tools.family == "decoder" else pair
        first, second = (tokenizer.encode(record[side]) for side in ("first", "second"))
        return form(first, second, roles=tokenizer, limit=self.tools.context)

    def baselines(
        self, train: Sequence[Record], judged: Mapping[Split, Sequence[Record]]
    ) -> Iterator[Baseline]:
        yield from super().baselines(train, judged)
        yield from_words(train, judged, words=lambda row: (row["first"], row["second"]))
