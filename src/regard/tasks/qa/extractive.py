"""Extractive question answering: the answer is a span of the passage, or there is none.

    [CLS] question [SEP] passage [SEP]  ─►  encoder, start and end logits a position
    answer where  best span ≥ null + τ,     τ chosen on dev for the highest F1, then frozen

Rajpurkar et al., 2018 ("Know What You Don't Know"); Devlin et al., 2019. Long passages are split
into windows (`passage_windows.py`). A softmax is invariant to a shift of its logits, so scores of
two windows are not comparable: each window's best span is compared with its own null score, and
the window with the largest margin answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from math import exp, isfinite
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from regard.batch import Batch, Example
from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.evaluation.baselines.trivial import NO_ANSWER, always_no_answer
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.question_answering import (
    AnswerMetric,
    best_threshold,
    exact_match_and_f1,
    should_answer,
)
from regard.models.heads.task_heads import SpanHead
from regard.models.model import TokenModel
from regard.models.task_models.span_model import SpanModel
from regard.tasks import TASKS, Problem, Task, TaskState, Tools, check_family, predict_examples
from regard.tasks.qa.abstention import thin_curve
from regard.tasks.qa.passage_windows import TokenizedPassage, build_windows, max_question_tokens
from regard.tasks.qa.question import read_question
from regard.tasks.qa.question_windows import QuestionWindows, span_remarks

MAX_CACHED_PASSAGES = 1024
"Tokenized passages in the cache: questions about one passage are usually adjacent rows."

Point = tuple[float, float]
"τ and F1."


@TASKS.add("extractive", families=("encoder",))
class Extractive(Task):
    """Find the span of a passage that answers a question, or predict that there is none."""

    context: str = "context"
    "The column that holds the passage."
    question: str = "question"
    "The column that holds the question."
    answers: str = "answers"
    "The column that holds the answer, or a list of answers that count; empty: there is none."
    answer_starts: str = "answer_starts"
    "The column with the characters at which answers start; without it they are searched for."
    impossible: str = "impossible"
    "The column that marks questions without an answer and overrides answers; may be missing."
    title: str = "title"
    "The column that names the article, stored with the answers; may be missing."
    max_answer_tokens: int = Field(default=30, ge=1)
    "Maximum tokens of an answer."
    stride: int = Field(default=0, ge=0)
    """Tokens from the start of one window of a long passage to the start of the next, at most the
    passage tokens of a window; 0: half of them."""

    column_roles: ClassVar = ("context", "question", "answers")
    target_roles: ClassVar = ("answers",)
    group_role: ClassVar = "context"
    score_names: ClassVar = AnswerMetric().score_names
    optional_roles: ClassVar = ("answer_starts", "impossible", "title")

    def build_problem(self, train: Sequence[Record], tools: Tools) -> SpanProblem:
        problem = SpanProblem(self, tools)
        problem.check_trainable(train)
        return problem

    def restore_problem(self, state: TaskState, tools: Tools) -> SpanProblem:
        return SpanProblem(self, tools, tau=state["tau"], curve=state["curve"])

    def texts(self, record: Record) -> list[str]:
        return [record["question"], record["context"]]


class Candidate(NamedTuple):
    """The prediction for one window: a row of `SpanPredictions`."""

    first: int
    last: int
    score: float
    null_score: float
    logprob: float
    null_logprob: float
    loss: float

    @property
    def margin(self) -> float:
        """Best span's score minus null score; −∞ where the window has no passage token."""
        return self.score - self.null_score


class SpanProblem(Problem[SpanModel]):
    """Answer each question from its passage."""

    tunes = True
    is_tuned_on_dev = True

    def __init__(
        self, task: Extractive, tools: Tools, *, tau: float = 0.0, curve: Sequence[Point] = ()
    ) -> None:
        super().__init__(tools)
        self.task = task
        self.metric = AnswerMetric()
        self.tau = tau
        "A span is the answer where its score is at least the null score plus this."
        self.curve = [(float(threshold), float(f1)) for threshold, f1 in curve]
        "F1 on dev against τ."
        tokenize = partial(TokenizedPassage.from_text, tokenizer=tools.tokenizer)
        self._cached_passage = lru_cache(MAX_CACHED_PASSAGES)(tokenize)

    def state(self) -> TaskState:
        return {"tau": self.tau, "curve": [list(point) for point in self.curve]}

    def check_trainable(self, train: Sequence[Record]) -> None:
        """Refuse training rows none of which has an answer in its passage."""
        questions = map(self.question_windows, train)
        if not any(question.is_trainable and question.span for question in questions):
            raise UserError(
                f"none of {len(train):,} training rows has an answer that is in its passage",
                topic="task",
                hint="Set task.answers and task.context to the columns that hold them.",
            )

    def remarks(self, train: Sequence[Record]) -> list[str]:
        return span_remarks(
            map(self.question_windows, train), max_answer_tokens=self.task.max_answer_tokens
        )

    def attach_head(self, model: TokenModel, *, seed: int) -> SpanModel:
        fits = model.visibility == "bidirectional"
        check_family(model, 'Set model.family = "encoder".', fits=fits)
        return SpanModel(model, SpanHead(model.head.width), seed=seed)

    def question_windows(self, record: Record) -> QuestionWindows:
        """The question of a record, in windows."""
        question = read_question(record)
        passage = self._cached_passage(question.context)
        ids = self.tools.tokenizer.encode(question.question)
        windows = build_windows(
            ids,
            passage,
            roles=self.tools.tokenizer,
            context=self.tools.context,
            stride=self.task.stride,
        )
        truncated_tokens = max(0, len(ids) - max_question_tokens(self.tools.context))
        return QuestionWindows(question, passage, tuple(windows), truncated_tokens)

    def examples(self, record: Record) -> list[Example]:
        question = self.question_windows(record)
        return question.examples() if question.is_trainable else []

    def answer(
        self,
        model: SpanModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        questions = [self.question_windows(record) for record in records]
        examples = [example for question in questions for example in question.examples()]

        def predict_spans(batch: Batch) -> Iterator[Candidate]:
            spans = model.predict(batch, max_length=self.task.max_answer_tokens)
            return map(Candidate._make, zip(*(field.tolist() for field in spans), strict=True))

        predictions = predict_examples(
            examples,
            predict_spans,
            pad=self.tools.tokenizer.padding_id,
            device=device,
            on_progress=on_progress,
        )
        candidates = iter(predictions)
        return [
            self._row(item, question, [next(candidates) for _ in question.windows])
            for item, question in enumerate(questions)
        ]

    def tune(self, model: SpanModel, dev: Sequence[Record], *, device: str = "cpu") -> list[str]:
        rows = [row for row in self.answer(model, dev, device=device) if "best_score" in row]
        chosen = best_threshold(
            [row["null_score"] for row in rows],
            [row["best_score"] for row in rows],
            [exact_match_and_f1(row["best"], row["truths"])[1] for row in rows],
            [exact_match_and_f1(NO_ANSWER, row["truths"])[1] for row in rows],
        )
        self.tau = chosen.tau
        self.curve = thin_curve(chosen.curve, [tau for tau, _ in chosen.curve], keep=chosen.tau)
        remark = (
            f"τ = {chosen.tau:.4g} was chosen on the {len(rows):,} questions of dev, where it "
            f"gives F1 {100 * chosen.f1:.1f} %, and is frozen: judge by test"
        )
        if len({row["answerable"] for row in rows}) == 1:
            every = "an answer" if rows[0]["answerable"] else "none"
            remark += f". Every question of dev has {every}, so τ separates nothing"
        return [remark]

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        yield (
            "always no answer",
            {split: _no_answer_rows(records) for split, records in evaluated.items()},
        )

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        n, answered = len(answers), sum(bool(row["predicted"]) for row in answers)
        unanswerable = sum(row.get("answerable") is False for row in answers)
        missing = sum(row.get("answer_missing", False) for row in answers)
        warnings = []
        if not answered:
            warnings.append(
                f"it answers none of {n:,} questions: that is the baseline, not a model"
            )
        if answered == n and unanswerable:
            warnings.append(
                f"it answers all of {n:,} questions, though {unanswerable:,} have no answer"
            )
        if missing:
            warnings.append(
                f"{missing:,} of {n:,} questions have an answer that is not in their passage: they "
                "are scored all the same"
            )
        return tuple(warnings)

    def tables(self, answers: Sequence[Row], *, split: str) -> Mapping[str, list[Row]]:
        """F1 against τ on dev, where τ was chosen; a curve on test would invite tuning on test."""
        if not split.startswith("dev"):
            return {}
        return {"f1_by_threshold": [{"tau": tau, "f1": f1} for tau, f1 in self.curve]}

    def truncated_tokens(self, record: Record) -> int:
        return self.question_windows(record).truncated_tokens

    def _row(self, item: int, windows: QuestionWindows, candidates: Sequence[Candidate]) -> Row:
        question = windows.question
        window, best = max(
            zip(windows.windows, candidates, strict=True), key=lambda pair: pair[1].margin
        )
        row: dict[str, Any] = {
            "item": item,
            "predicted": NO_ANSWER,
            "confidence": exp(best.null_logprob),
        }
        if isfinite(best.margin):
            begin, end = windows.passage.character_span(*window.to_tokens((best.first, best.last)))
            row |= {"best": question.context[begin:end], "best_score": best.score}
            if should_answer(best.null_score, best.score, self.tau):
                row |= {"predicted": row["best"], "confidence": exp(best.logprob), "start": begin}
        row["null_score"] = best.null_score
        if question.truths is None:
            return row
        row |= _truth_fields(question.truths)
        if windows.is_answer_missing:
            row["answer_missing"] = True
        if windows.is_trainable:
            row["loss"] = float(np.mean([candidate.loss for candidate in candidates]))
        return row


def _truth_fields(truths: Sequence[str]) -> dict[str, Any]:
    return {"truths": list(truths), "answerable": bool(truths)}


def _no_answer_rows(records: Sequence[Record]) -> list[Row]:
    """Result rows of the baseline that never answers."""
    pairs = zip(records, always_no_answer(len(records)), strict=True)
    return [
        {"item": item, "predicted": answer, **_truth_fields(read_question(record).truths or ())}
        for item, (record, answer) in enumerate(pairs)
    ]
