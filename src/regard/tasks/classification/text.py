"""Text classification: one label for each text (sentiment, topics).

[CLS] text [SEP]  ─►  encoder, read at its first place
<start> text <stop>  ─►  decoder, read at its last place, which has seen the whole text
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from regard.data.corpus import Split
from regard.data.packing import Packed, bounded, one
from regard.data.record_corpus import Record
from regard.tasks import TASKS, Task, TaskState, Tools
from regard.tasks.classification.labels import Baseline, LabelProblem, Pooled, from_words, labels_of


@TASKS.add("classification", families=("encoder", "decoder"))
class Classification(Task):
    """Tell the label of a text."""

    text: str = "text"
    "The column that holds the text."
    label: str = "label"
    "The column that holds the label."
    pooling: Pooled = "auto"
    "Which place answers: first, last, the mean of all; auto: an encoder's first, a decoder's last."

    columns_wanted: ClassVar = ("text", "label")
    columns_told: ClassVar = ("label",)
    metrics: ClassVar = ("accuracy", "macro_f1", "mcc")

    def open(self, train: Sequence[Record], tools: Tools) -> TextProblem:
        return TextProblem(self, tools, labels_of(train))

    def reopen(self, learnt: TaskState, tools: Tools) -> TextProblem:
        return TextProblem(self, tools, learnt["labels"])

    def texts(self, record: Record) -> list[str]:
        return [record["text"]]


class TextProblem(LabelProblem):
    def __init__(self, task: Classification, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(tools, labels, pooling=task.pooling)

    def pack(self, record: Record) -> Packed:
        form = bounded if self.tools.family == "decoder" else one
        ids = self.tools.tokenizer.encode(record["text"])
        return form(ids, self.tools.tokenizer, limit=self.tools.context)

    def baselines(
        self, train: Sequence[Record], judged: Mapping[Split, Sequence[Record]]
    ) -> Iterator[Baseline]:
        yield from super().baselines(train, judged)
        yield from_words(train, judged, words=lambda record: str(record["text"]))
