"""Trivial baselines: constant predictions, and copies of the input.

A model that does not beat them has learned nothing useful. Each returns one prediction per item, as
a model does, so that the same metric scores both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from regard.core.errors import UserError
from regard.evaluation.baselines.sentences import sentences

Label = TypeVar("Label", bound=Hashable)

NO_ANSWER = ""
"The prediction that a passage does not contain the answer."


def majority_label(train_labels: Iterable[Label], n: int) -> list[Label]:
    """The most frequent training label, `n` times; ties go to the first by name."""
    counts = Counter(train_labels)
    if not counts:
        raise UserError(
            "there is no training row to take the most frequent answer from",
            topic="baseline",
            hint="Give a training split with rows.",
        )
    # Ties by name, so that the order of the rows does not matter.
    return [min(counts, key=lambda label: (-counts[label], str(label)))] * n


def mean_value(train_values: Sequence[float], n: int) -> list[float]:
    """The mean of the training values, `n` times."""
    if not train_values:
        raise UserError(
            "there is no training row to take the mean of",
            topic="baseline",
            hint="Give a training split with rows.",
        )
    return [math.fsum(train_values) / len(train_values)] * n


def most_frequent_answer(train_answers: Iterable[str], n: int) -> list[str]:
    """The most frequent training answer, `n` times: say "London" for every birthplace."""
    return majority_label((answer.strip() for answer in train_answers), n)


def always_no_answer(n: int) -> list[str]:
    """Predict that no question is answerable."""
    return [NO_ANSWER] * n


def copy_source(sources: Iterable[str]) -> list[str]:
    """The source as its own translation: scores names, numbers and shared words."""
    return list(sources)


def lead_sentence(documents: Iterable[str | Sequence[str]]) -> list[str]:
    """The first sentence as the summary; a document is a text or a list of sentences."""
    return [_first_sentence(document) for document in documents]


def _first_sentence(document: str | Sequence[str]) -> str:
    in_order = sentences(document) if isinstance(document, str) else document
    return next((sentence.strip() for sentence in in_order if sentence.strip()), "")
