"""Parsing of extractive question-answering rows: true answers and their spans in the passage.

A file may give answers as a list or as one string, with or without the characters at which they
start. An empty answer, an empty list and a row marked impossible mean: no answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from regard.data.record_corpus import Record
from regard.tasks.qa.passage_windows import Span
from regard.tasks.qa.recall_records import YES


@dataclass(frozen=True)
class Question:
    """One question, its passage and its answers."""

    context: str
    question: str
    truths: tuple[str, ...] | None
    "Every answer that counts as right; empty: there is no answer; None: the row does not say."
    span: Span | None = None
    "Characters of the first truth that occurs in the passage, the end excluded."
    has_wrong_start: bool = False
    "Whether the truth was found elsewhere than at the row's start."

    @property
    def is_answer_missing(self) -> bool:
        """Whether there is an answer that does not occur in the passage."""
        return bool(self.truths) and self.span is None


def read_question(record: Record) -> Question:
    """The question of a row; a malformed row is refused."""
    context, question = _text(record, "context"), _text(record, "question")
    if "answers" not in record:
        return Question(context, question, None)
    answers = _answers(record)
    if _is_impossible(record):
        answers = []
    truths = tuple(answer.strip() for answer, _ in answers)
    for answer, start in answers:
        found = find_answer(context, answer, start)
        if found is not None:
            begin, has_wrong_start = found
            span = (begin, begin + len(answer.strip()))
            return Question(context, question, truths, span, has_wrong_start)
    return Question(context, question, truths)


def find_answer(context: str, answer: str, start: int | None) -> tuple[int, bool] | None:
    """The character at which an answer begins, and whether `start` was wrong; None if not found.

    Without a start, or with a wrong one, whole-word matches win over matches inside words, then the
    match nearest to `start`.
    """
    text = answer.strip()
    if start is not None:
        begin = start + len(answer) - len(answer.lstrip())
        if start >= 0 and context.startswith(text, begin):
            return begin, False
    literal = re.escape(text)
    for pattern in (rf"(?<!\w){literal}(?!\w)", literal):
        begins = [match.start() for match in re.finditer(pattern, context)]
        if begins:
            target = start or 0
            return min(begins, key=lambda begin: abs(begin - target)), start is not None
    return None


def _answers(record: Record) -> list[tuple[str, int | None]]:
    """The non-empty answers, each with its start where the row gives one."""
    answers = _as_list(record["answers"])
    starts = [start for start in _as_list(record.get("answer_starts")) if start != ""]
    if starts and len(starts) != len(answers):
        raise record.error(
            f"{len(answers)} answers and {len(starts)} starts",
            hint="Give each answer one, or none at all.",
        )
    for answer in answers:
        if not isinstance(answer, str):
            raise record.error(f"the answer {answer!r} is no text", hint="Give it as a text.")
    if not starts:
        return [(answer, None) for answer in answers if answer.strip()]
    parsed_starts = (_parse_start(record, start) for start in starts)
    return [pair for pair in zip(answers, parsed_starts, strict=True) if pair[0].strip()]


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _parse_start(record: Record, start: Any) -> int:
    try:
        return int(start)
    except (TypeError, ValueError):
        raise record.error(
            f"the start {start!r} is no whole number",
            hint="Give the index of the answer's first character, counted from 0.",
        ) from None


def _is_impossible(record: Record) -> bool:
    marked = record.get("impossible", False)
    return marked.strip().lower() in YES if isinstance(marked, str) else bool(marked)


def _text(record: Record, role: str) -> str:
    value = record[role]
    if not isinstance(value, str) or not value.strip():
        raise record.error(
            f"the {role} is no text, or empty", hint=f"Give it, or set task.{role} to its column."
        )
    return value
