"""Summarisation: say in a sentence or two what a document says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from regard.data.corpus import Split
from regard.evaluation.baselines.trivial import lead_sentence
from regard.evaluation.metrics.bleu_and_rouge import SummaryMetric, sentence_rows
from regard.evaluation.metrics.metric import Row
from regard.tasks import TASKS, TaskState, Tools
from regard.tasks.writing.text_to_text import FAMILIES, TextToText, TextToTextProblem, texts_in

if TYPE_CHECKING:
    from regard.data.record_corpus import Record


@TASKS.add("summarisation", families=FAMILIES)
class Summarisation(TextToText):
    """Say in a sentence or two what a document says."""

    document: str = "document"
    "The column that holds the document: a text, or a list of its sentences."
    summary: str = "summary"
    "The column that holds the summary, or a list of several; the best is what counts."

    columns_wanted: ClassVar = ("document", "summary")
    columns_told: ClassVar = ("summary",)
    metrics: ClassVar = SummaryMetric().metrics
    columns_hold: ClassVar = {"document": "texts", "summary": "texts"}

    def open(self, train: Sequence[Record], tools: Tools) -> SummaryProblem:
        return SummaryProblem(self, tools, SummaryMetric())

    def reopen(self, learnt: TaskState, tools: Tools) -> SummaryProblem:
        return SummaryProblem(self, tools, SummaryMetric())

    def source_of(self, record: Record) -> str:
        return " ".join(texts_in(record, "document"))

    def references_of(self, record: Record) -> list[str]:
        return texts_in(record, "summary")


class SummaryProblem(TextToTextProblem):
    def baselines(
        self, train: Sequence[Record], judged: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        yield (
            "lead sentence",
            {
                part: sentence_rows(
                    lead_sentence(record["document"] for record in rows),
                    list(map(self.task.references_of, rows)),
                )
                for part, rows in judged.items()
            },
        )
