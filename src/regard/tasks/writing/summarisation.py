"""Summarisation: say in a sentence or two what a document says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from regard.data.corpus import Part
from regard.evaluation.baselines.trivial import lead_sentence
from regard.evaluation.metrics.bleu_and_rouge import Summary, sentence_rows
from regard.evaluation.metrics.metric import Row
from regard.tasks import TASKS, Learnt, Tools
from regard.tasks.writing.text_to_text import FAMILIES, Writing, WritingProblem, texts_in

if TYPE_CHECKING:
    from regard.data.record_corpus import Record


@TASKS.add("summarisation", families=FAMILIES)
class Summarisation(Writing):
    """Say in a sentence or two what a document says."""

    document: str = "document"
    "The column that holds the document: a text, or a list of its sentences."
    summary: str = "summary"
    "The column that holds the summary, or a list of several; the best is what counts."

    columns_wanted: ClassVar = ("document", "summary")
    columns_told: ClassVar = ("summary",)
    metrics: ClassVar = Summary().metrics
    columns_hold: ClassVar = {"document": "texts", "summary": "texts"}

    def open(self, train: Sequence[Record], tools: Tools) -> SummaryProblem:
        return SummaryProblem(self, tools, Summary())

    def reopen(self, learnt: Learnt, tools: Tools) -> SummaryProblem:
        return SummaryProblem(self, tools, Summary())

    def source_of(self, record: Record) -> str:
        return " ".join(texts_in(record, "document"))

    def references_of(self, record: Record) -> list[str]:
        return texts_in(record, "summary")


class SummaryProblem(WritingProblem):
    def baselines(
        self, train: Sequence[Record], judged: Mapping[Part, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Part, list[Row]]]]:
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
