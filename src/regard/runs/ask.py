"""One question to a model that recalls: its answer, how sure it is, and where the answer is from.

sure enough, and seen in pretraining   →  the model answers
else, with a table                     →  what stands in the table, where it has the subject
sure enough, but never seen            →  the model answers, and it is called a guess
else                                   →  nobody: "I don't know"
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
    """What a question came to."""

    question: str
    answer: str | None
    "None: I don't know."
    by: By
    "Who answers."
    reason: str
    "Why so, in words."
    best: str
    "What the model says, whether it is given as the answer or held back."
    measured_by: str
    "Which of the two below the confidence is."
    confidence: float
    probability: float
    agreement: float | None
    "None where no answers were drawn."
    threshold: float | None
    "None: the model answers always, because none was chosen yet."
    as_sure: ReliabilityBin | None
    "Dev's answers of like confidence; None where there were none, and for a guess."
    subject: str | None
    seen: bool | None
    "Whether the pretraining text names the subject; None where that is not known."

    @property
    def guess(self) -> bool:
        """Whether the model can have read nothing about it, and answers all the same."""
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
    """`subject` says whom the question asks about, where the task's pattern does not tell."""
    question = question.strip()
    if not question:
        raise UserError("the question is empty", topic="ask", hint="Ask something.")
    [row] = problem.predict(model, [Record({"question": question})])
    subject = subject or problem.task.find_subject(question)
    seen = _seen(problem, subject)
    doubt = _doubt(row, subject=subject, seen=seen)
    looked_up = None if table is None or not doubt else _look_up(table, subject)
    by, answer = _decided(row, looked_up)
    abstention = problem.abstention
    return Answer(
        question=question,
        answer=answer,
        by=by,
        reason=_reason(by, doubt, looked_up),
        best=row["predicted"],
        measured_by=problem.task.confidence,
        confidence=row["confidence"],
        probability=row["probability"],
        agreement=row.get("agreement"),
        threshold=None if abstention is None else abstention.threshold,
        # Dev's people were mostly read of: their answers say nothing of one that was not.
        as_sure=None
        if abstention is None or seen is False
        else abstention.reliability(row["confidence"]),
        subject=subject,
        seen=seen,
    )


class _LookedUp(NamedTuple):
    value: str | None
    said: str
    "What the table holds, in words."


def _doubt(row: Row, *, subject: str | None, seen: bool | None) -> str:
    """Why the model's answer should not stand; nothing where it may."""
    if not row["answered"]:
        return "the model is not sure enough"
    if not row["predicted"]:
        return "the model has no words for it"
    return f"its pretraining text does not name {subject}" if seen is False else ""


def _look_up(table: LookupTable, subject: str | None) -> _LookedUp:
    if subject is None:
        raise UserError(
            "what to look up is not known: the run's task.subject does not fit this question",
            topic="ask",
            hint='Say it: --subject "Stanley Corrsin".',
        )
    values = table.look_up(subject)
    if not values:
        return _LookedUp(None, f"{table.file} has no row for {subject!r}")
    if len(values) > 1:
        said = f"{table.file} has several values for {subject!r}: {', '.join(values)}"
        return _LookedUp(None, said)
    return _LookedUp(values[0], f"looked up in {table.file} under {subject!r}")


def _decided(row: Row, looked_up: _LookedUp | None) -> tuple[By, str | None]:
    if looked_up is not None and looked_up.value is not None:
        return "table", looked_up.value
    if row["answered"] and row["predicted"]:
        return "model", row["predicted"]
    return "nobody", None


def _reason(by: By, doubt: str, looked_up: _LookedUp | None) -> str:
    if by == "table":
        assert looked_up is not None
        return f"{looked_up.said}, because {doubt}"
    if by == "model":
        doubt = f"a guess: {doubt}" if doubt else "answered from memory"
    return doubt if looked_up is None else f"{doubt}, and {looked_up.said}"


def _seen(problem: RecallProblem, subject: str | None) -> bool | None:
    """Whether the pretraining text names the subject; not known where it is no longer there."""
    if subject is None:
        return None
    try:
        text = problem.pretraining_text()
        return None if text is None else text.mentions([subject])[0]
    except UserError:
        return None
