"""Machine translation, scored by BLEU and chrF.

A table of scores by source length shows the bottleneck of models that encode a sentence in one
vector (Cho et al., 2014).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from pydantic import Field, field_validator

from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.evaluation.baselines.trivial import copy_source
from regard.evaluation.metrics.bleu_and_rouge import TranslationMetric, sentence_rows
from regard.evaluation.metrics.by_length import score_by_length
from regard.evaluation.metrics.metric import Row
from regard.tasks import TASKS, TaskState, Tools
from regard.tasks.text_generation.text_to_text import (
    FAMILIES,
    TextToText,
    TextToTextProblem,
    record_texts,
)


@TASKS.add("translation", families=FAMILIES)
class Translation(TextToText):
    """Translate a sentence into another language."""

    source: str = "source"
    "The column that holds the source text."
    target: str = "target"
    "The column that holds its translation, or a list of references."
    length_edges: tuple[int, ...] = Field(default=(8, 12, 16, 20, 25))
    "Bin edges of the scores by source length, in words; each edge is its bin's minimum."

    column_roles: ClassVar = ("source", "target")
    target_roles: ClassVar = ("target",)
    score_names: ClassVar = TranslationMetric().score_names
    role_types: ClassVar = {"target": "texts"}

    @field_validator("length_edges")
    @classmethod
    def _edges_increase(cls, edges: tuple[int, ...]) -> tuple[int, ...]:
        if any(left >= right for left, right in pairwise(edges)):
            raise ValueError("give each length once, the shortest first")
        return edges

    def restore_problem(self, state: TaskState, tools: Tools) -> TranslationProblem:
        return TranslationProblem(self, tools, TranslationMetric())

    def source_text(self, record: Record) -> str:
        return str(record["source"])

    def reference_texts(self, record: Record) -> list[str]:
        return record_texts(record, "target")


class TranslationProblem(TextToTextProblem):
    task: Translation

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        yield (
            "copy the source",
            {
                split: sentence_rows(
                    copy_source(map(self.task.source_text, rows)),
                    list(map(self.task.reference_texts, rows)),
                )
                for split, rows in evaluated.items()
            },
        )

    def tables(self, answers: Sequence[Row], *, split: str) -> Mapping[str, list[Row]]:
        bins = score_by_length(
            self.metric, answers, field="source_words", edges=self.task.length_edges, split=split
        )
        rows: list[Row] = [
            {
                "words": str(length_bin),
                "shortest": length_bin.start,
                "longer": length_bin.stop,
                **{("metric" if key == "name" else key): value for key, value in fields.items()},
            }
            for length_bin in bins
            for fields in (estimate.as_dict() for estimate in length_bin.estimates)
        ]
        return {"by source length": rows}
