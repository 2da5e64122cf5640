"""Semantic textual similarity: a score for two texts.

    score = min_score + (max_score − min_score) · cosine of the two embeddings
    loss  = (cosine − (true score − min_score) / (max_score − min_score))²

Each text is encoded alone (bi-encoder), so an embedding serves any number of comparisons. A cosine
measures similarity, not certainty: answers have no confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
import torch
from pydantic import model_validator

from regard.batch import Example
from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.data.corpus import Split
from regard.data.numbers import parse_number
from regard.data.overlap.normalise import normalise
from regard.data.record_corpus import Record
from regard.evaluation.baselines.tfidf_cosine import TfidfCosine
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.similarity import SimilarityMetric
from regard.models.heads.task_heads import Pooling, SentenceHead
from regard.models.model import TokenModel
from regard.models.task_models.sentence_model import SimilarityModel, cosines
from regard.tasks import TASKS, Problem, Task, TaskState, Tools, check_family, predict_examples
from regard.tasks.retrieval.sentence_embeddings import encode_text, pair_example

MIN_SPREAD = 1e-3
"Predicted scores within this fraction of the range have collapsed to one value."


@TASKS.add("similarity", families=("encoder", "decoder"))
class Similarity(Task):
    """Predict how similar two texts are."""

    first: str = "first"
    "The column that holds the first text."
    second: str = "second"
    "The column that holds the second text."
    score: str = "score"
    "The column that holds the similarity, as a number."
    min_score: float = 0.0
    "The score of two texts that have nothing in common."
    max_score: float = 1.0
    "The score of two texts of the same meaning."
    pooling: Pooling = "mean"
    "Pooled position: first, last, or the mean of all."

    column_roles: ClassVar = ("first", "second", "score")
    target_roles: ClassVar = ("score",)
    score_names: ClassVar = SimilarityMetric().score_names
    role_types: ClassVar = {"second": "text"}

    @model_validator(mode="after")
    def _range_is_not_empty(self) -> Self:
        if self.min_score >= self.max_score:
            raise ValueError(
                f"max_score = {self.max_score:g} has to be above min_score = {self.min_score:g}"
            )
        return self

    def build_problem(self, train: Sequence[Record], tools: Tools) -> SimilarityProblem:
        if len({self.parse_score(record) for record in train}) < 2:
            raise UserError(
                "every training row has the same score, so there is nothing to learn",
                topic="task",
                hint="Give pairs of different similarity, or set task.score to another column.",
            )
        return SimilarityProblem(self, tools)

    def restore_problem(self, state: TaskState, tools: Tools) -> SimilarityProblem:
        return SimilarityProblem(self, tools)

    def items(self, rows: Sequence[Record]) -> list[Record]:
        for record in rows:
            self.parse_score(record)  # refuse bad rows of dev and test before training
        return list(rows)

    def texts(self, record: Record) -> list[str]:
        return [record["first"], record["second"]]

    def identity_text(self, record: Record) -> str:
        """The two texts in one order, whichever stands first."""
        return " ".join(sorted(self.input_texts(record), key=normalise))

    def is_near(self, row: Record, other: Record) -> bool:
        swapped = Record({**other, "first": other["second"], "second": other["first"]})
        return super().is_near(row, other) or super().is_near(row, swapped)

    def parse_score(self, record: Record) -> float:
        """The true score of a row; refused if it is no number in the range."""
        value = record["score"]
        score = parse_number(value)
        if score is None or not self.min_score <= score <= self.max_score:
            raise record.error(
                f"the score {value!r} is no number from {self.min_score:g} to {self.max_score:g}",
                hint="Set task.min_score and task.max_score to the range of the scores, "
                "or task.score to their column.",
            )
        return score


class SimilarityProblem(Problem[SimilarityModel]):
    def __init__(self, task: Similarity, tools: Tools) -> None:
        super().__init__(tools)
        self.task = task
        self.metric = SimilarityMetric()

    def attach_head(self, model: TokenModel, *, seed: int) -> SimilarityModel:
        hint = 'Set model.family = "encoder" or "decoder".'
        check_family(model, hint, fits=model.reads == "row")
        return SimilarityModel(model, SentenceHead(pooling=self.task.pooling), seed=seed)

    def examples(self, record: Record) -> list[Example]:
        first, second = (encode_text(text, self.tools) for text in self.task.texts(record))
        # Rows to answer have no score; the loss of the placeholder is not used.
        score = self.task.parse_score(record) if "score" in record else self.task.min_score
        target = self._target_cosine(score)
        return [pair_example(first, second, labels=np.array([target], dtype=np.float32))]

    @torch.inference_mode()
    def answer(
        self,
        model: SimilarityModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        examples = [example for record in records for example in self.examples(record)]
        predicted = predict_examples(
            examples,
            lambda batch: cosines(*model.encode_pairs(batch)).cpu().double().numpy(),
            pad=self.tools.tokenizer.padding_id,
            device=device,
            on_progress=on_progress,
        )
        return self._rows(records, np.array(predicted))

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        baseline = TfidfCosine(text for record in train for text in self.task.texts(record))
        yield (
            baseline.label,
            {
                split: self._rows(rows, [baseline.score(*self.task.texts(row)) for row in rows])
                for split, rows in evaluated.items()
            },
        )

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        scores = [row["predicted"] for row in answers]
        score_range = self.task.max_score - self.task.min_score
        if len(scores) > 1 and max(scores) - min(scores) < MIN_SPREAD * score_range:
            return (f"all {len(scores):,} pairs get nearly the same score, {scores[0]:.3g}",)
        return ()

    def truncated_tokens(self, record: Record) -> int:
        return sum(encode_text(text, self.tools).truncated for text in self.task.texts(record))

    def _rows(self, records: Sequence[Record], cosines: Sequence[float] | np.ndarray) -> list[Row]:
        return [
            self._row(item, record, float(cosine))
            for item, (record, cosine) in enumerate(zip(records, cosines, strict=True))
        ]

    def _row(self, item: int, record: Record, cosine: float) -> Row:
        task = self.task
        row = {
            "item": item,
            "predicted": task.min_score + (task.max_score - task.min_score) * cosine,
        }
        if "score" in record:
            truth = task.parse_score(record)
            row |= {"truth": truth, "loss": (cosine - self._target_cosine(truth)) ** 2}
        return row

    def _target_cosine(self, score: float) -> float:
        """A score mapped to 0 … 1."""
        return (score - self.task.min_score) / (self.task.max_score - self.task.min_score)
