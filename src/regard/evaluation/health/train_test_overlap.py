"""Train-test overlap: evaluated inputs that occur in the training split too.

Texts are compared without case and with white space collapsed. Where labels are given, the overlap
also counts inputs that have the same label in train: these can be answered by memorisation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias

Input: TypeAlias = str | tuple[str, ...]
"A text, or the texts of a pair."
Key: TypeAlias = tuple[str, ...]

MAX_EXAMPLES = 5
"Maximum examples kept."


@dataclass(frozen=True)
class TrainTestOverlap:
    """How many evaluated inputs are training inputs too."""

    count: int
    n: int
    "All evaluated inputs."
    same_label: int | None
    "Those of `count` that have the same label in train; None without labels."
    examples: tuple[Input, ...]
    "The first few, as they occur in the evaluated split."

    @property
    def fraction(self) -> float:
        return self.count / self.n if self.n else 0.0

    def sentence(self, split: str) -> str:
        """`12 of 872 test inputs (1.4 %) are in train too, 11 of them with the same label`"""
        if not self.count:
            return f"none of the {self.n:,} {split} inputs is in train"
        overlap = f"{self.count:,} of {self.n:,} {split} inputs ({100 * self.fraction:.1f} %)"
        overlap += " is in train too" if self.count == 1 else " are in train too"
        if self.same_label is None:
            return overlap
        return f"{overlap}, {self.same_label:,} of them with the same label"


def train_test_overlap(
    train: Iterable[Input],
    evaluated: Sequence[Input],
    *,
    train_labels: Iterable[Hashable] | None = None,
    evaluated_labels: Sequence[Hashable] | None = None,
) -> TrainTestOverlap:
    """Evaluated inputs that occur in train, which is iterated once and may be a generator."""
    keys = [_key(text) for text in evaluated]
    # Only keys of the evaluated split are held in memory: train may be far larger.
    labels: dict[Key, set[Hashable]] = {key: set() for key in keys}
    in_train: set[Key] = set()
    has_labels = train_labels is not None and evaluated_labels is not None
    labels_or_none = repeat(None) if train_labels is None else train_labels
    for text, label in zip(train, labels_or_none, strict=train_labels is not None):
        if (key := _key(text)) in labels:
            in_train.add(key)
            labels[key].add(label)
    shared = [i for i, key in enumerate(keys) if key in in_train]
    same_label = None
    if has_labels:
        assert evaluated_labels is not None
        truth = [label for _, label in zip(keys, evaluated_labels, strict=True)]
        same_label = sum(truth[i] in labels[keys[i]] for i in shared)
    examples = tuple(evaluated[i] for i in shared[:MAX_EXAMPLES])
    return TrainTestOverlap(len(shared), len(evaluated), same_label, examples)


def _key(inputs: Input) -> Key:
    texts = (inputs,) if isinstance(inputs, str) else inputs
    return tuple(" ".join(text.casefold().split()) for text in texts)
