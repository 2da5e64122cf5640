"""Similarity: how alike two texts are, as a number.

    score = lowest + (highest − lowest) · cosine of the two vectors

Each text is read alone, so a vector serves any number of comparisons. What is learnt is the squared
difference between the cosine and the score that people gave, brought to 0 … 1. A cosine says how
alike two texts are, not how sure the model is: answers have no confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from pydantic import model_validator

from regard.batch import Example
from regard.core.errors import UserError
from regard.data.corpus import Split
from regard.evaluation.baselines.tfidf_cosine import WordCosine
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.similarity import SimilarityMetric as SimilarityMeasure
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.heads.task_heads import Pooling, SentenceHead
from regard.models.model import Model
from regard.models.task_models.sentence_model import SimilarityModel
from regard.tasks import (
    TASKS,
    OnProgress,
    Problem,
    Task,
    TaskState,
    Tools,
    check_family,
    ignore_progress,
    predict_examples,
)
from regard.tasks.retrieval.sentence_embeddings import encode_text, pair_example

if TYPE_CHECKING:
    from regard.data.record_corpus import Record

NARROW = 1e-3
"Cosines that lie this close together tell no pair from another."


@TASKS.add("similarity", families=("encoder", "decoder"))
class Similarity(Task):
    """Tell how alike two texts are."""

    first: str = "first"
    "The column that holds the first text."
    second: str = "second"
    "The column that holds the second text."
    score: str = "score"
    "The column that holds how alike they are, as a number."
    lowest: float = 0.0
    "The score of two texts that have nothing in common."
    highest: float = 1.0
    "The score of two texts that say the same."
    pooling: Pooling = "mean"
    "Which place stands for a text: first, last, or the mean of all."

    column_roles: ClassVar = ("first", "second", "score")
    target_roles: ClassVar = ("score",)
    score_names: ClassVar = SimilarityMeasure().score_names
    role_types: ClassVar = {"second": "text"}

    @model_validator(mode="after")
    def _range_is_one(self) -> Self:
        if self.lowest >= self.highest:
            raise ValueError(f"highest = {self.highest:g} has to be above lowest = {self.lowest:g}")
        return self

    def build_problem(self, train: Sequence[Record], tools: Tools) -> SimilarityProblem:
        if len({self.score_of(record) for record in train}) < 2:
            raise UserError(
                "every training row has the same score, so there is nothing to learn",
                topic="task",
                hint="Give pairs of different likeness, or set task.score to another column.",
            )
        return SimilarityProblem(self, tools)

    def restore_problem(self, state: TaskState, tools: Tools) -> SimilarityProblem:
        return SimilarityProblem(self, tools)

    def items(self, rows: Sequence[Record]) -> list[Record]:
        for record in rows:
            self.score_of(record)  # now, not when a training is over
        return list(rows)

    def texts(self, record: Record) -> list[str]:
        return [record["first"], record["second"]]

    def score_of(self, record: Record) -> float:
        """What people said, refused where it is no number of the range."""
        given = record["score"]
        try:
            score = math.nan if isinstance(given, bool) else float(given)
        except (TypeError, ValueError):
            score = math.nan
        if not self.lowest <= score <= self.highest:
            raise UserError(
                f"the score {given!r} is no number from {self.lowest:g} to {self.highest:g}",
                topic="data",
                where=record.at,
                hint="Set task.lowest and task.highest to the range of the scores, "
                "or task.score to their column.",
            )
        return score


class SimilarityProblem(Problem):
    def __init__(self, task: Similarity, tools: Tools) -> None:
        super().__init__(tools)
        self.task = task
        self.metric = SimilarityMeasure()

    def attach_head(self, model: Model, *, seed: int) -> Model:
        check_family(model, SequenceModel, 'Set model.family = "encoder" or "decoder".')
        assert isinstance(model, SequenceModel)
        return SimilarityModel(model, SentenceHead(pooling=self.task.pooling), seed=seed)

    def examples(self, record: Record) -> list[Example]:
        first, second = (encode_text(text, self.tools) for text in self.task.texts(record))
        # A row to answer has no score; nobody looks at the loss it would have.
        score = self.task.score_of(record) if "score" in record else self.task.lowest
        return [
            pair_example(first, second, labels=np.array([self._share(score)], dtype=np.float32))
        ]

    @torch.inference_mode()
    def answer(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = ignore_progress,
    ) -> list[Row]:
        assert isinstance(model, SimilarityModel)
        examples = [example for record in records for example in self.examples(record)]
        cosines = predict_examples(
            examples,
            lambda batch: model.cosines(batch).double().cpu().numpy(),
            pad=self.tools.tokenizer.padding_id,
            device=device,
            on_progress=on_progress,
        )
        return self._rows(records, np.array(cosines))

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        words = WordCosine(text for record in train for text in self.task.texts(record))
        yield (
            words.label,
            {
                split: self._rows(rows, [words.score(*self.task.texts(row)) for row in rows])
                for split, rows in evaluated.items()
            },
        )

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        scores = [row["predicted"] for row in answers]
        reach = self.task.highest - self.task.lowest
        if len(scores) > 1 and max(scores) - min(scores) < NARROW * reach:
            return (f"all {len(scores):,} pairs get nearly the same score, {scores[0]:.3g}",)
        return ()

    def lost(self, record: Record) -> int:
        return sum(encode_text(text, self.tools).truncated for text in self.task.texts(record))

    def _rows(self, records: Sequence[Record], cosines: Sequence[float] | np.ndarray) -> list[Row]:
        return [
            self._row(number, record, float(cosine))
            for number, (record, cosine) in enumerate(zip(records, cosines, strict=True))
        ]

    def _row(self, number: int, record: Record, cosine: float) -> Row:
        task = self.task
        row = {"item": number, "predicted": task.lowest + (task.highest - task.lowest) * cosine}
        if "score" in record:
            truth = task.score_of(record)
            row |= {"truth": truth, "loss": (cosine - self._share(truth)) ** 2}
        return row

    def _share(self, score: float) -> float:
        return (score - self.task.lowest) / (self.task.highest - self.task.lowest)
