"""Inputs that train and a judged part share: what was learnt by heart counts as known.

Two texts are the same when they agree but for white space and case. Of those whose label is known
it is also told how many have it in train too: these can be answered without understanding.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias

Input: TypeAlias = str | tuple[str, ...]
"A text, or the texts of a pair."
Key: TypeAlias = tuple[str, ...]

SHOWN = 5
"Examples kept."


@dataclass(frozen=True)
class TrainTestOverlap:
    """How many of the judged inputs are training inputs too."""

    count: int
    n: int
    "Judged inputs in all."
    same_label: int | None
    "Those among `count` whose label train holds for the same input; None where no label is known."
    examples: tuple[Input, ...]
    "The first few, as they stand in the judged part."

    @property
    def share(self) -> float:
        return self.count / self.n if self.n else 0.0

    def sentence(self, split: str) -> str:
        """`12 of 872 test inputs (1.4 %) are in train too, 11 of them with the same label`"""
        if not self.count:
            return f"none of the {self.n:,} {split} inputs is in train"
        told = f"{self.count:,} of {self.n:,} {split} inputs ({100 * self.share:.1f} %)"
        told += " is in train too" if self.count == 1 else " are in train too"
        if self.same_label is None:
            return told
        return f"{told}, {self.same_label:,} of them with the same label"


def train_test_overlap(
    train: Iterable[Input],
    judged: Sequence[Input],
    *,
    train_labels: Iterable[Hashable] | None = None,
    judged_labels: Sequence[Hashable] | None = None,
) -> TrainTestOverlap:
    """Which of the judged inputs train holds; train is gone through once and may be a generator."""
    wanted = [_key(one) for one in judged]
    # Only what is judged is held in memory: train may be far larger.
    labels: dict[Key, set[Hashable]] = {key: set() for key in wanted}
    seen: set[Key] = set()
    has_labels = train_labels is not None and judged_labels is not None
    beside = repeat(None) if train_labels is None else train_labels
    for one, label in zip(train, beside, strict=train_labels is not None):
        if (key := _key(one)) in labels:
            seen.add(key)
            labels[key].add(label)
    shared = [i for i, key in enumerate(wanted) if key in seen]
    same = None
    if has_labels:
        assert judged_labels is not None
        truth = [label for _, label in zip(wanted, judged_labels, strict=True)]
        same = sum(truth[i] in labels[wanted[i]] for i in shared)
    examples = tuple(judged[i] for i in shared[:SHOWN])
    return TrainTestOverlap(len(shared), len(judged), same, examples)


def _key(one: Input) -> Key:
    texts = (one,) if isinstance(one, str) else one
    return tuple(" ".join(text.casefold().split()) for text in texts)
