"""Translation: write in one language what a sentence says in another.

The figures are BLEU and chrF; what a model loses on long sentences, where one vector has to hold
all of it (Cho et al., 2014), shows in a table of its own, by words of the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, field_validator

from regard.data.corpus import Split
from regard.evaluation.baselines.trivial import copy_source
from regard.evaluation.metrics.bleu_and_rouge import TranslationMetric as TranslationMeasure
from regard.evaluation.metrics.bleu_and_rouge import sentence_rows
from regard.evaluation.metrics.by_length import score_by_length
from regard.evaluation.metrics.metric import Row
from regard.tasks import TASKS, TaskState, Tools
from regard.tasks.writing.text_to_text import FAMILIES, TextToText, TextToTextProblem, texts_in

if TYPE_CHECKING:
    from regard.data.record_corpus import Record


@TASKS.add("translation", families=FAMILIES)
class Translation(TextToText):
    """Write in one language what a sentence says in another."""

    source: str = "source"
    "The column that holds what is translated."
    target: str = "target"
    "The column that holds its translation, or a list of several."
    length_edges: tuple[int, ...] = Field(default=(8, 12, 16, 20, 25))
    "Words of the source at which figures by length are cut; each is the shortest of its bin."

    columns_wanted: ClassVar = ("source", "target")
    columns_told: ClassVar = ("target",)
    metrics: ClassVar = TranslationMeasure().metrics
    columns_hold: ClassVar = {"target": "texts"}

    @field_validator("length_edges")
    @classmethod
    def _rise(cls, edges: tuple[int, ...]) -> tuple[int, ...]:
        if any(left >= right for left, right in pairwise(edges)):
            raise ValueError("give each length once, the shortest first")
        return edges

    def open(self, train: Sequence[Record], tools: Tools) -> TranslationProblem:
        return TranslationProblem(self, tools, TranslationMeasure())

    def reopen(self, learnt: TaskState, tools: Tools) -> TranslationProblem:
        return TranslationProblem(self, tools, TranslationMeasure())

    def source_of(self, record: Record) -> str:
        return str(record["source"])

    def references_of(self, record: Record) -> list[str]:
        return texts_in(record, "target")


class TranslationProblem(TextToTextProblem):
    task: Translation

    def baselines(
        self, train: Sequence[Record], judged: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        yield (
            "copy the source",
            {
                part: sentence_rows(
                    copy_source(map(self.task.source_of, rows)),
                    list(map(self.task.references_of, rows)),
                )
                for part, rows in judged.items()
            },
        )

    def tables(self, answers: Sequence[Row], *, part: str) -> Mapping[str, list[Row]]:
        bins = score_by_length(
            self.measure, answers, field="source_words", edges=self.task.length_edges, part=part
        )
        rows: list[Row] = [
            {
                "words": str(found),
                "shortest": found.shortest,
                "longer": found.longer,
                **{("metric" if key == "name" else key): value for key, value in plain.items()},
            }
            for found in bins
            for plain in (figure.as_dict() for figure in found.figures)
        ]
        return {"by source length": rows}
