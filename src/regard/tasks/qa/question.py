"""A question about a passage, as a row says it: its true answers, and where the passage holds one.

A file may give answers as a list or as one string, with the characters at which they start or
without. An empty answer, an empty list, and a row marked impossible say that there is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.core.errors import UserError
from regard.tasks.qa.passage_windows import Span

if TYPE_CHECKING:
    from regard.data.record_corpus import Record

TRUE_WORDS = ("true", "yes", "1")
"How a table writes that a question is impossible."


@dataclass(frozen=True)
class Question:
    """One question, its passage, and what is known of its answer."""

    context: str
    question: str
    truths: tuple[str, ...] | None
    "Every answer that counts as right; none at all: there is no answer; None: nobody says."
    where: Span | None = None
    "Characters of the first truth that stands in the passage, the end excluded."
    is_moved: bool = False
    "It does not stand where the row says, but elsewhere."

    @property
    def is_unfound(self) -> bool:
        """Whether there is an answer that the passage does not hold."""
        return bool(self.truths) and self.where is None


def read_question(record: Record) -> Question:
    """What a row asks; refused where it cannot be meant so."""
    context, question = _text(record, "context"), _text(record, "question")
    if "answers" not in record:
        return Question(context, question, None)
    given = _answers(record)
    if _is_impossible(record):
        given = []
    truths = tuple(answer.strip() for answer, _ in given)
    for answer, start in given:
        found = find_answer(context, answer, start)
        if found is not None:
            begin, is_moved = found
            where = (begin, begin + len(answer.strip()))
            return Question(context, question, truths, where, is_moved)
    return Question(context, question, truths)


def find_answer(context: str, answer: str, start: int | None) -> tuple[int, bool] | None:
    """Where an answer begins, and whether that is not where it was said to; None where nowhere.

    Without a start, or with a wrong one, whole words go before parts of words, then the nearest.
    """
    wanted = answer.strip()
    if start is not None:
        begin = start + len(answer) - len(answer.lstrip())
        if start >= 0 and context.startswith(wanted, begin):
            return begin, False
    spelled = re.escape(wanted)
    for pattern in (rf"(?<!\w){spelled}(?!\w)", spelled):
        found = [match.start() for match in re.finditer(pattern, context)]
        if found:
            near = start or 0
            return min(found, key=lambda begin: abs(begin - near)), start is not None
    return None


def _answers(record: Record) -> list[tuple[str, int | None]]:
    """The answers that hold anything, each with its start where the row gives one."""
    answers = _listed(record["answers"])
    starts = [start for start in _listed(record.get("answer_starts")) if start != ""]
    if starts and len(starts) != len(answers):
        raise _refusal(
            record,
            f"{len(answers)} answers and {len(starts)} starts",
            "Give each answer one, or none at all.",
        )
    for answer in answers:
        if not isinstance(answer, str):
            raise _refusal(record, f"the answer {answer!r} is no text", "Give it as a text.")
    if not starts:
        return [(answer, None) for answer in answers if answer.strip()]
    places = (_whole(record, start) for start in starts)
    return [pair for pair in zip(answers, places, strict=True) if pair[0].strip()]


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _whole(record: Record, start: Any) -> int:
    try:
        return int(start)
    except (TypeError, ValueError):
        raise _refusal(
            record,
            f"the start {start!r} is no whole number",
            "Give the number of the answer's first character, counted from 0.",
        ) from None


def _is_impossible(record: Record) -> bool:
    marked = record.get("impossible", False)
    return marked.strip().lower() in TRUE_WORDS if isinstance(marked, str) else bool(marked)


def _text(record: Record, role: str) -> str:
    value = record[role]
    if not isinstance(value, str) or not value.strip():
        raise _refusal(
            record,
            f"the {role} is no text, or empty",
            f"Give it, or set task.{role} to its column.",
        )
    return value


def _refusal(record: Record, what: str, hint: str) -> UserError:
    return UserError(what, topic="data", where=record.at, hint=hint)
