"""Summarisation of documents, scored by ROUGE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.evaluation.baselines.trivial import lead_sentence
from regard.evaluation.metrics.bleu_and_rouge import SummaryMetric, sentence_rows
from regard.evaluation.metrics.metric import Row
from regard.tasks import TASKS, TaskState, Tools
from regard.tasks.text_generation.text_to_text import (
    FAMILIES,
    TextToText,
    TextToTextProblem,
    record_texts,
)


@TASKS.add("summarisation", families=FAMILIES)
class Summarisation(TextToText):
    """Summarise a document in a sentence or two."""

    document: str = "document"
    "The column that holds the document: a text, or a list of its sentences."
    summary: str = "summary"
    "The column that holds the summary, or a list of references; the best match counts."

    column_roles: ClassVar = ("document", "summary")
    target_roles: ClassVar = ("summary",)
    score_names: ClassVar = SummaryMetric().score_names
    role_types: ClassVar = {"document": "texts", "summary": "texts"}

    def restore_problem(self, state: TaskState, tools: Tools) -> SummaryProblem:
        return SummaryProblem(self, tools, SummaryMetric())

    def source_text(self, record: Record) -> str:
        return " ".join(record_texts(record, "document"))

    def reference_texts(self, record: Record) -> list[str]:
        return record_texts(record, "summary")


class SummaryProblem(TextToTextProblem):
    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        yield (
            "lead sentence",
            {
                split: sentence_rows(
                    lead_sentence(record["document"] for record in rows),
                    list(map(self.task.reference_texts, rows)),
                )
                for split, rows in evaluated.items()
            },
        )
