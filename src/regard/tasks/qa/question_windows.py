"""A question as labelled windows: the training examples of extractive question answering.

A window that does not contain the whole answer is labelled with [CLS], as a passage without an
answer is. Questions whose labels would all be wrong (the answer is not in the passage, or in no
window as a whole) are left out of training and counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from regard.batch import Example
from regard.models.task_models.span_model import NULL_POSITION
from regard.tasks import sequence_example
from regard.tasks.qa.passage_windows import PassageWindow, Span, TokenizedPassage
from regard.tasks.qa.question import Question

NULL_SPAN = (NULL_POSITION, NULL_POSITION)


@dataclass(frozen=True)
class QuestionWindows:
    """One question with its tokenized passage and windows."""

    question: Question
    passage: TokenizedPassage
    windows: tuple[PassageWindow, ...]
    truncated_tokens: int
    "Tokens of the question that were cut off."

    @property
    def span(self) -> Span | None:
        """First and last token of the answer: the smallest span that covers it."""
        if self.question.span is None:
            return None
        return self.passage.token_span(*self.question.span)

    @property
    def labels(self) -> list[Span]:
        """First and last position of the answer in each window; [CLS] where the window lacks it."""
        span = self.span
        if span is None:
            return [NULL_SPAN] * len(self.windows)
        return [window.to_positions(span) or NULL_SPAN for window in self.windows]

    @property
    def is_answer_missing(self) -> bool:
        """Whether there is an answer of which no token of the passage contains anything."""
        return bool(self.question.truths) and self.span is None

    @property
    def is_too_long(self) -> bool:
        """Whether no window contains the whole answer."""
        return self.span is not None and all(label == NULL_SPAN for label in self.labels)

    @property
    def is_trainable(self) -> bool:
        """Whether the labels are correct."""
        has_truths = self.question.truths is not None
        return has_truths and not self.is_answer_missing and not self.is_too_long

    @property
    def splits_a_token(self) -> bool:
        """Whether the answer begins or ends inside a token, so that the label covers more."""
        span = self.span
        return span is not None and self.passage.character_span(*span) != self.question.span

    def examples(self) -> list[Example]:
        """One example a window."""
        return [
            sequence_example(window.sequence, np.asarray(label, dtype=np.int64))
            for window, label in zip(self.windows, self.labels, strict=True)
        ]


def span_remarks(questions: Iterable[QuestionWindows], *, max_answer_tokens: int) -> list[str]:
    """Problems with the answers of training rows, with counts, a sentence each."""
    rows = list(questions)
    spans = [row.span for row in rows]
    n = f"of {len(rows):,} training rows"
    counts = {
        f"{n} have an answer that is not in their passage, and are left out of training": sum(
            row.is_answer_missing for row in rows
        ),
        f"{n} have an answer that no window contains as a whole, and are left out of training; a "
        "smaller task.stride or a larger model.context helps": sum(row.is_too_long for row in rows),
        f"{n} give a wrong start of their answer; its nearest occurrence is used": sum(
            row.question.has_wrong_start for row in rows
        ),
        f"{n} have an answer that begins or ends inside a token; the smallest span of whole tokens "
        "around it is the label": sum(row.splits_a_token for row in rows),
        f"{n} have an answer of more than task.max_answer_tokens = {max_answer_tokens} tokens, "
        "which cannot be predicted as a whole": sum(
            span is not None and span[1] - span[0] >= max_answer_tokens for span in spans
        ),
    }
    return [f"{count:,} {what}" for what, count in counts.items() if count]
