"""Ask a closed-book QA model one question: the answer, its confidence, and where it comes from.

confident, subject seen in pretraining   →  the model answers
else, with a lookup table                →  the value in the table, if it has the subject
confident, subject never seen            →  the model answers, marked as a guess
else                                     →  nobody: "I don't know"
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.risk_coverage import ReliabilityBin
from regard.models.model import Model
from regard.tasks.qa.lookup_table import LookupTable
from regard.tasks.qa.recall import RecallProblem

By = Literal["model", "table", "nobody"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to a question, with its confidence and its origin."""

    question: str
    answer: str | None
    "None: I don't know."
    by: By
    "Who answers."
    reason: str
    "Why, in words."
    predicted: str
    "The model's prediction, given as the answer or withheld."
    confidence_kind: str
    "Which of the two below is the confidence: probability or agreement."
    confidence: float
    probability: float
    agreement: float | None
    "Fraction of sampled answers that agree; None if none were sampled."
    threshold: float | None
    "None: no threshold was chosen yet, so the model always answers."
    reliability: ReliabilityBin | None
    "Answers on dev of similar confidence; None if there were none, and for a guess."
    subject: str | None
    seen: bool | None
    "Whether the pretraining text mentions the subject; None if that is unknown."

    @property
    def guess(self) -> bool:
        """Whether the model answers although its pretraining text never mentions the subject."""
        return self.by == "model" and self.seen is False

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "guess": self.guess}


def ask(
    problem: RecallProblem,
    model: Model,
    question: str,
    *,
    subject: str | None = None,
    table: LookupTable | None = None,
) -> Answer:
    """`subject` is what the question is about, if the task's pattern does not find it."""
    question = question.strip()
    if not question:
        raise UserError("the question is empty", topic="ask", hint="Ask something.")
    [row] = problem.predict(model.body, [Record({"question": question})])
    subject = subject or problem.task.find_subject(question)
    seen = _seen(problem, subject)
    doubt = _doubt(row, subject=subject, seen=seen)
    lookup = None if table is None or not doubt else _look_up(table, subject)
    by, answer = _decide(row, lookup)
    abstention = problem.abstention
    return Answer(
        question=question,
        answer=answer,
        by=by,
        reason=_reason(by, doubt, lookup),
        predicted=row["predicted"],
        confidence_kind=problem.task.confidence,
        confidence=row["confidence"],
        probability=row["probability"],
        agreement=row.get("agreement"),
        threshold=None if abstention is None else abstention.threshold,
        # Most subjects of dev were seen in pretraining: their answers say nothing of unseen ones.
        reliability=None
        if abstention is None or seen is False
        else abstention.reliability(row["confidence"]),
        subject=subject,
        seen=seen,
    )


class _Lookup(NamedTuple):
    value: str | None
    text: str
    "What the table holds, in words."


def _doubt(row: Row, *, subject: str | None, seen: bool | None) -> str:
    """Why the model's prediction is not trusted; empty if it is."""
    if not row["answered"]:
        return "the model is not sure enough"
    if not row["predicted"]:
        return "the model predicts no words"
    return f"its pretraining text does not name {subject}" if seen is False else ""


def _look_up(table: LookupTable, subject: str | None) -> _Lookup:
    if subject is None:
        raise UserError(
            "the subject to look up is unknown: task.subject of the run does not match",
            topic="ask",
            hint='Give it: --subject "Stanley Corrsin".',
        )
    values = table.look_up(subject)
    if not values:
        return _Lookup(None, f"{table.file} has no row for {subject!r}")
    if len(values) > 1:
        text = f"{table.file} has several values for {subject!r}: {', '.join(values)}"
        return _Lookup(None, text)
    return _Lookup(values[0], f"looked up in {table.file} under {subject!r}")


def _decide(row: Row, lookup: _Lookup | None) -> tuple[By, str | None]:
    if lookup is not None and lookup.value is not None:
        return "table", lookup.value
    if row["answered"] and row["predicted"]:
        return "model", row["predicted"]
    return "nobody", None


def _reason(by: By, doubt: str, lookup: _Lookup | None) -> str:
    if by == "table":
        assert lookup is not None
        return f"{lookup.text}, because {doubt}"
    if by == "model":
        doubt = f"a guess: {doubt}" if doubt else "answered from memory"
    return doubt if lookup is None else f"{doubt}, and {lookup.text}"


def _seen(problem: RecallProblem, subject: str | None) -> bool | None:
    """Whether the pretraining text mentions the subject; None if the text is gone."""
    if subject is None:
        return None
    try:
        text = problem.pretraining_text()
        return None if text is None else text.mentions([subject])[0]
    except UserError:
        return None
