"""Baselines that need no learning: what one gets without looking at the item, or by copying it.

A model that is not ahead of these has learnt nothing that counts. Each takes plain values and gives
what a model would give, one answer an item, so that the same measure scores both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from regard.core.errors import UserError
from regard.evaluation.baselines.sentences import sentences

Label = TypeVar("Label", bound=Hashable)

NO_ANSWER = ""
"What stands for saying that a passage does not tell."


def majority_label(train_labels: Iterable[Label], n: int) -> list[Label]:
    """The commonest training label, `n` times; of equals the first by name."""
    counts = Counter(train_labels)
    if not counts:
        raise UserError(
            "there is no training row to take the commonest answer from",
            topic="baseline",
            hint="Give a training part that holds rows.",
        )
    # By name, so that the order of the rows changes nothing.
    return [min(counts, key=lambda label: (-counts[label], str(label)))] * n


def most_frequent_answer(train_answers: Iterable[str], n: int) -> list[str]:
    """The commonest training answer, `n` times: "London" to every question after a birthplace."""
    return majority_label((answer.strip() for answer in train_answers), n)


def always_no_answer(n: int) -> list[str]:
    """Says of every question that the passage does not tell."""
    return [NO_ANSWER] * n


def copy_source(sources: Iterable[str]) -> list[str]:
    """The source itself as its translation: names, numbers and words that both languages share."""
    return list(sources)


def lead_sentence(documents: Iterable[str | Sequence[str]]) -> list[str]:
    """The first sentence as the summary; a document is a text, or its sentences."""
    return [_lead(document) for document in documents]


def _lead(document: str | Sequence[str]) -> str:
    parts = sentences(document) if isinstance(document, str) else document
    return next((part.strip() for part in parts if part.strip()), "")
