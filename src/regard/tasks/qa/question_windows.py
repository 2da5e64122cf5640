"""A question about a passage as the rows a model reads, each labelled with the span it has to find.

A window that does not hold the answer whole is labelled with [CLS], as a passage without an answer
is. What cannot be taught so (an answer that is not in the passage, one longer than any overlap of
windows) is left out of training, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from regard.batch import Example
from regard.models.task_models.span_model import NULL_POSITION
from regard.tasks.qa.passage_windows import PassageWindow, Span, TokenizedPassage
from regard.tasks.qa.question import Question

NULL_SPAN = (NULL_POSITION, NULL_POSITION)


@dataclass(frozen=True)
class QuestionRows:
    """One question in the tokens of its windows."""

    asked: Question
    passage: TokenizedPassage
    windows: tuple[PassageWindow, ...]
    lost: int
    "Tokens of the question that were cut off."

    @property
    def span(self) -> Span | None:
        """First and last token of the answer; the smallest run that covers it."""
        return None if self.asked.where is None else self.passage.tokens_of(*self.asked.where)

    @property
    def labels(self) -> list[Span]:
        """Where each window holds the answer; [CLS] where it does not hold it whole."""
        span = self.span
        if span is None:
            return [NULL_SPAN] * len(self.windows)
        return [window.places_of(span) or NULL_SPAN for window in self.windows]

    @property
    def is_unfound(self) -> bool:
        """Whether there is an answer, and no token of the passage holds any of it."""
        return bool(self.asked.truths) and self.span is None

    @property
    def is_too_long(self) -> bool:
        """Whether the answer stands whole in no window."""
        return self.span is not None and all(label == NULL_SPAN for label in self.labels)

    @property
    def is_taught(self) -> bool:
        """Whether the labels are true."""
        return self.asked.truths is not None and not self.is_unfound and not self.is_too_long

    @property
    def is_cut_through(self) -> bool:
        """Whether the answer begins or ends inside a token, so that more than it is taught."""
        span = self.span
        return span is not None and self.passage.characters_of(*span) != self.asked.where

    def examples(self) -> list[Example]:
        """One for each window."""
        return [_example(*pair) for pair in zip(self.windows, self.labels, strict=True)]


def said_of(rows: Iterable[QuestionRows], *, longest: int) -> list[str]:
    """What is not as it should be with the answers of rows that are trained on, a sentence each."""
    every = list(rows)
    spans = [row.span for row in every]
    n = f"of {len(every):,} training rows"
    counted = {
        f"{n} have an answer that is not in their passage, and are left out of training": sum(
            row.is_unfound for row in every
        ),
        f"{n} have an answer that is in no window whole, and are left out of training; a smaller "
        "task.stride or a larger model.context helps": sum(row.is_too_long for row in every),
        f"{n} say a wrong start of their answer; the nearest place that holds it was taken": sum(
            row.asked.is_moved for row in every
        ),
        f"{n} have an answer that begins or ends inside a token; the smallest run of whole tokens "
        "around it is trained": sum(row.is_cut_through for row in every),
        f"{n} have an answer of more than task.longest_answer = {longest} tokens, which is never "
        "given whole": sum(span is not None and span[1] - span[0] >= longest for span in spans),
    }
    return [f"{count:,} {what}" for what, count in counted.items() if count]


def _example(window: PassageWindow, label: Span) -> Example:
    ids = np.asarray(window.packed.ids, dtype=np.int64)
    weights = np.zeros(len(ids), dtype=np.float32)
    weights[NULL_POSITION] = 1.0  # a row counts once, however long it is
    segments = np.asarray(window.packed.segments, dtype=np.int64)
    return Example(ids, ids, weights, segments, labels=np.asarray(label, dtype=np.int64))
