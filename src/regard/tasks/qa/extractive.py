"""Extractive question answering: the answer is a piece of the passage, or there is none.

    [CLS] question [SEP] passage [SEP]  ─►  encoder, start and end logits a position
    answer where  best span ≥ null + τ,     τ chosen on dev for the highest F1, then frozen

Rajpurkar et al., 2018 ("Know What You Don't Know"); Devlin et al., 2019. A long passage is read in
windows (`windows.py`). Scores of two windows are not on one scale, since a softmax leaves their
common level open: each window's best span stands against its own null score, and the window with
the largest margin answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import exp, isfinite
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from regard.batch import Batch, Example
from regard.core.errors import UserError
from regard.data.corpus import Split
from regard.evaluation.baselines.trivial import NO_ANSWER, always_no_answer
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.question_answering import (
    AnswerMetric,
    best_threshold,
    exact_match_and_f1,
    should_answer,
)
from regard.models.architectures.encoder_model import EncoderModel
from regard.models.heads.task_heads import SpanHead
from regard.models.model import Model
from regard.models.task_models.span_model import SpanModel
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
from regard.tasks.qa.passage_windows import TokenizedPassage, question_room, windows_of
from regard.tasks.qa.question import read_question
from regard.tasks.qa.question_windows import QuestionRows, said_of

if TYPE_CHECKING:
    from regard.data.record_corpus import Record

PASSAGES_REMEMBERED = 1024
"In tokens: the questions of a passage stand near one another."
CURVE_POINTS = 200
"Of F1 against τ that are kept for drawing, at most."

Point = tuple[float, float]


@TASKS.add("extractive", families=("encoder",))
class Extractive(Task):
    """Point at the answer in a passage, or say that there is none."""

    context: str = "context"
    "The column that holds the passage."
    question: str = "question"
    "The column that holds the question."
    answers: str = "answers"
    "The column that holds the answer, or a list of answers that count; empty: there is none."
    answer_starts: str = "answer_starts"
    "The column that says at which characters answers start; without it they are looked for."
    impossible: str = "impossible"
    "The column that says that there is no answer, whatever stands under answers; may be missing."
    title: str = "title"
    "The column that names the article, kept with the answers; may be missing."
    max_answer_tokens: int = Field(default=30, ge=1)
    "Tokens of an answer, at most."
    stride: int = Field(default=0, ge=0)
    """Tokens from the beginning of one window of a long passage to that of the next, at most as
    many as a window holds; 0: half as many."""

    column_roles: ClassVar = ("context", "question", "answers")
    target_roles: ClassVar = ("answers",)
    score_names: ClassVar = AnswerMetric().score_names
    optional_roles: ClassVar = ("answer_starts", "impossible", "title")

    def build_problem(self, train: Sequence[Record], tools: Tools) -> SpanProblem:
        problem = SpanProblem(self, tools)
        problem.refuse_unteachable(train)
        return problem

    def restore_problem(self, state: TaskState, tools: Tools) -> SpanProblem:
        return SpanProblem(self, tools, tau=state["tau"], curve=state["curve"])

    def texts(self, record: Record) -> list[str]:
        return [record["question"], record["context"]]


class Candidate(NamedTuple):
    """What one window makes of its question: a row of `Spans`."""

    first: int
    last: int
    score: float
    null_score: float
    log_share: float
    null_log_share: float
    loss: float

    @property
    def margin(self) -> float:
        """Of its best span over its null score; −∞ where the window holds no token."""
        return self.score - self.null_score


class SpanProblem(Problem):
    """Answer each question from its passage."""

    is_tuned_on_dev = True

    def __init__(
        self, task: Extractive, tools: Tools, *, tau: float = 0.0, curve: Sequence[Point] = ()
    ) -> None:
        super().__init__(tools)
        self.task = task
        self.metric = AnswerMetric()
        self.tau = tau
        "An answer is given where its score is at least the null score plus this."
        self.curve = [(float(at), float(f1)) for at, f1 in curve]
        "F1 on dev against τ."
        self._passage = lru_cache(PASSAGES_REMEMBERED)(self._read_passage)

    def state(self) -> TaskState:
        return {"tau": self.tau, "curve": [list(point) for point in self.curve]}

    def refuse_unteachable(self, train: Sequence[Record]) -> None:
        """An error where no row has an answer to find."""
        if not any(row.is_taught and row.span for row in map(self.read, train)):
            raise UserError(
                f"none of {len(train):,} training rows has an answer that stands in its passage",
                topic="task",
                hint="Set task.answers and task.context to the columns that hold them.",
            )

    def remarks(self, train: Sequence[Record]) -> list[str]:
        return said_of(map(self.read, train), longest=self.task.max_answer_tokens)

    def attach_head(self, model: Model, *, seed: int) -> Model:
        check_family(model, EncoderModel, 'Set model.family = "encoder".')
        assert isinstance(model, EncoderModel)
        return SpanModel(model, SpanHead(model.head.width), seed=seed)

    def read(self, record: Record) -> QuestionRows:
        """A record in windows of tokens."""
        asked = read_question(record)
        passage = self._passage(asked.context)
        question = self.tools.tokenizer.encode(asked.question)
        windows = windows_of(
            question,
            passage,
            roles=self.tools.tokenizer,
            context=self.tools.context,
            stride=self.task.stride,
        )
        lost = max(0, len(question) - question_room(self.tools.context))
        return QuestionRows(asked, passage, tuple(windows), lost)

    def examples(self, record: Record) -> list[Example]:
        rows = self.read(record)
        return rows.examples() if rows.is_taught else []

    def answer(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = ignore_progress,
    ) -> list[Row]:
        assert isinstance(model, SpanModel)
        asked = [self.read(record) for record in records]
        examples = [example for rows in asked for example in rows.examples()]

        def candidates_of(batch: Batch) -> Iterator[Candidate]:
            spans = model.predict(batch, max_length=self.task.max_answer_tokens)
            return map(Candidate._make, zip(*(each.tolist() for each in spans), strict=True))

        found = predict_examples(
            examples,
            candidates_of,
            pad=self.tools.tokenizer.padding_id,
            device=device,
            on_progress=on_progress,
        )
        candidates = iter(found)
        return [
            self._row(number, rows, [next(candidates) for _ in rows.windows])
            for number, rows in enumerate(asked)
        ]

    def tune(self, model: Model, dev: Sequence[Record], *, device: str = "cpu") -> list[str]:
        rows = [row for row in self.answer(model, dev, device=device) if "best_score" in row]
        chosen = best_threshold(
            [row["null_score"] for row in rows],
            [row["best_score"] for row in rows],
            [exact_match_and_f1(row["best"], row["truths"])[1] for row in rows],
            [exact_match_and_f1(NO_ANSWER, row["truths"])[1] for row in rows],
        )
        self.tau = chosen.tau
        self.curve = thinned(chosen.curve, keep=chosen.tau, most=CURVE_POINTS)
        remark = (
            f"τ = {chosen.tau:.4g} was chosen on the {len(rows):,} questions of dev, where it "
            f"gives F1 {100 * chosen.f1:.1f} %, and is frozen: judge by test"
        )
        if len({row["answerable"] for row in rows}) == 1:
            every = "an answer" if rows[0]["answerable"] else "none"
            remark += f". Every question of dev has {every}, so τ tells nothing apart"
        return [remark]

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        yield (
            "always no answer",
            {split: _silent(records) for split, records in evaluated.items()},
        )

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        n, given = len(answers), sum(bool(row["predicted"]) for row in answers)
        without = sum(row.get("answerable") is False for row in answers)
        unfound = sum(row.get("unfound", False) for row in answers)
        told = []
        if not given:
            told.append(f"it answers none of {n:,} questions: that is the baseline, not a model")
        if given == n and without:
            told.append(f"it answers all of {n:,} questions, though {without:,} have no answer")
        if unfound:
            told.append(
                f"{unfound:,} of {n:,} questions have an answer that is not in their passage: they "
                "are judged all the same"
            )
        return tuple(told)

    def tables(self, answers: Sequence[Row], *, split: str) -> Mapping[str, list[Row]]:
        """F1 against τ where τ was chosen; on test the curve would invite to choose again."""
        if not split.startswith("dev"):
            return {}
        return {"f1_by_threshold": [{"tau": tau, "f1": f1} for tau, f1 in self.curve]}

    def lost(self, record: Record) -> int:
        return self.read(record).lost

    def _row(self, number: int, rows: QuestionRows, candidates: Sequence[Candidate]) -> Row:
        window, best = max(
            zip(rows.windows, candidates, strict=True), key=lambda pair: pair[1].margin
        )
        row: dict[str, Any] = {
            "item": number,
            "predicted": NO_ANSWER,
            "confidence": exp(best.null_log_share),
        }
        if isfinite(best.margin):
            begin, end = rows.passage.characters_of(*window.tokens_at((best.first, best.last)))
            row |= {"best": rows.asked.context[begin:end], "best_score": best.score}
            if should_answer(best.null_score, best.score, self.tau):
                row |= {"predicted": row["best"], "confidence": exp(best.log_share), "start": begin}
        row["null_score"] = best.null_score
        if rows.asked.truths is None:
            return row
        row |= _truth(rows.asked.truths)
        if rows.is_unfound:
            row["unfound"] = True
        if rows.is_taught:
            row["loss"] = float(np.mean([each.loss for each in candidates]))
        return row

    def _read_passage(self, text: str) -> TokenizedPassage:
        return TokenizedPassage.of(text, self.tools.tokenizer)


def thinned(curve: Sequence[Point], *, keep: float, most: int) -> list[Point]:
    """At most so many points, both ends and the one at `keep` among them."""
    if len(curve) <= most:
        return list(curve)
    numbers = set(np.linspace(0, len(curve) - 1, most - 1).round().astype(int).tolist())
    numbers.add(next(number for number, point in enumerate(curve) if point[0] == keep))
    return [curve[number] for number in sorted(numbers)]


def _truth(truths: Sequence[str]) -> dict[str, Any]:
    return {"truths": list(truths), "answerable": bool(truths)}


def _silent(records: Sequence[Record]) -> list[Row]:
    """What never answering comes to."""
    rows = zip(records, always_no_answer(len(records)), strict=True)
    return [
        {"item": number, "predicted": nothing, **_truth(read_question(record).truths or ())}
        for number, (record, nothing) in enumerate(rows)
    ]
