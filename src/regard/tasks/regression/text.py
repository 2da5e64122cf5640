"""Text regression: a number for each text (ratings, difficulty, prices).

    ŷ = mean + sd · (w · pooled + b)        loss = ((ŷ − y) / sd)²

Mean and standard deviation are those of the training rows, so the loss does not depend on the unit
of the numbers. A prediction is a number, not a probability: answers have no confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch

from regard.batch import Example
from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.data.corpus import Split
from regard.data.numbers import parse_number
from regard.data.record_corpus import Record
from regard.data.special_tokens import InputSequence
from regard.evaluation.baselines.tfidf_ridge import TfidfRidge
from regard.evaluation.baselines.trivial import mean_value
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.regression import RegressionMetric
from regard.models.heads.task_heads import Pooling, ValueHead
from regard.models.model import TokenModel
from regard.models.task_models.task_model import SequenceRegressor
from regard.tasks import (
    TASKS,
    Problem,
    Task,
    TaskState,
    Tools,
    check_family,
    predict_examples,
    sequence_example,
)
from regard.tasks.classification.labels import PoolingChoice
from regard.tasks.retrieval.sentence_embeddings import encode_text

MIN_SPREAD = 1e-3
"Predictions within this fraction of the training rows' standard deviation have collapsed."


@TASKS.add("regression", families=("encoder", "decoder"))
class Regression(Task):
    """Predict a number for a text."""

    text: str = "text"
    "The column that holds the text."
    score: str = "score"
    "The column that holds the number, as 3.5 or 3,5."
    pooling: PoolingChoice = "auto"
    "Pooled position: first, last, or the mean of all; auto: an encoder's first, a decoder's last."

    column_roles: ClassVar = ("text", "score")
    target_roles: ClassVar = ("score",)
    score_names: ClassVar = RegressionMetric().score_names

    def build_problem(self, train: Sequence[Record], tools: Tools) -> RegressionProblem:
        scores = np.array([self.parse_score(record) for record in train])
        if scores.min() == scores.max():
            raise UserError(
                f"every training row has the score {scores[0]:g}, so there is nothing to learn",
                topic="task",
                hint="Give rows of different scores, or set task.score to another column.",
            )
        state = {"mean": float(scores.mean()), "deviation": float(scores.std())}
        return self.restore_problem(state, tools)

    def restore_problem(self, state: TaskState, tools: Tools) -> RegressionProblem:
        return RegressionProblem(self, tools, mean=state["mean"], deviation=state["deviation"])

    def items(self, rows: Sequence[Record]) -> list[Record]:
        for record in rows:
            self.parse_score(record)  # refuse bad rows of dev and test before training
        return list(rows)

    def texts(self, record: Record) -> list[str]:
        return [record["text"]]

    def parse_score(self, record: Record) -> float:
        """The true number of a row; refused if it is none."""
        score = parse_number(record["score"])
        if score is None:
            raise record.error(
                f"the score {record['score']!r} is no number",
                hint="Write it as 3.5 or 3,5, without a separator of thousands, or set task.score "
                'to the column of the numbers; for names of classes set task.kind = "classification'
                '".',
            )
        return score


class RegressionProblem(Problem[SequenceRegressor]):
    def __init__(self, task: Regression, tools: Tools, *, mean: float, deviation: float) -> None:
        super().__init__(tools)
        self.task = task
        self.metric = RegressionMetric()
        self.mean = mean
        self.deviation = deviation

    def state(self) -> TaskState:
        return {"mean": self.mean, "deviation": self.deviation}

    def attach_head(self, model: TokenModel, *, seed: int) -> SequenceRegressor:
        hint = 'Set model.family = "encoder" or "decoder".'
        check_family(model, hint, fits=model.reads == "row")
        return SequenceRegressor(
            model, ValueHead(model.head.width, pooling=self._pooling()), seed=seed
        )

    def examples(self, record: Record) -> list[Example]:
        # Rows to answer have no score; the loss of the placeholder is not used.
        score = self.task.parse_score(record) if "score" in record else self.mean
        label = np.array([(score - self.mean) / self.deviation], dtype=np.float32)
        return [sequence_example(self._sequence(record), label)]

    @torch.inference_mode()
    def answer(
        self,
        model: SequenceRegressor,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        values = predict_examples(
            [example for record in records for example in self.examples(record)],
            lambda batch: model.values(batch).cpu().double().numpy(),
            pad=self.tools.tokenizer.padding_id,
            device=device,
            on_progress=on_progress,
        )
        return self._rows(records, [self.mean + self.deviation * float(value) for value in values])

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        scores = [self.task.parse_score(record) for record in train]
        yield (
            "mean",
            {
                split: self._rows(rows, mean_value(scores, len(rows)))
                for split, rows in evaluated.items()
            },
        )
        ridge = TfidfRidge([record["text"] for record in train], scores)
        yield (
            ridge.label,
            {
                split: self._rows(rows, ridge.predict([row["text"] for row in rows]))
                for split, rows in evaluated.items()
            },
        )

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        collapsed = self.collapse(answers)
        return (collapsed,) if collapsed else ()

    def collapse(self, answers: Sequence[Row]) -> str:
        values = [row["predicted"] for row in answers]
        if len(values) < 2 or max(values) - min(values) >= MIN_SPREAD * self.deviation:
            return ""
        return f"all {len(values):,} texts get nearly the same number, {values[0]:.3g}"

    def truncated_tokens(self, record: Record) -> int:
        return self._sequence(record).truncated

    def _sequence(self, record: Record) -> InputSequence:
        return encode_text(record["text"], self.tools)

    def _rows(self, records: Sequence[Record], predicted: Sequence[float]) -> list[Row]:
        return [
            self._row(item, *pair) for item, pair in enumerate(zip(records, predicted, strict=True))
        ]

    def _row(self, item: int, record: Record, predicted: float) -> Row:
        row = {"item": item, "predicted": predicted}
        if "score" in record:
            truth = self.task.parse_score(record)
            row |= {"truth": truth, "loss": ((predicted - truth) / self.deviation) ** 2}
        return row

    def _pooling(self) -> Pooling:
        if self.task.pooling != "auto":
            return self.task.pooling
        return "last" if self.tools.family == "decoder" else "first"
