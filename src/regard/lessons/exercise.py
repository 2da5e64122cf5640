"""Exercises: a lesson's question with numbers drawn from a seed, and a mark for an answer.

    @exercise("average-of-two")
    def average_of_two_exercise(seed: int) -> ExerciseSheet:
        …
        return ExerciseSheet(
            task="Find a query q whose output is the average of values 1 and 2.",
            given={"keys": keys, "values": values},
            slots=(Slot("q", (4,)),),
            mark=lambda answer: Mark(distance=…, tolerance=0.01, feedback="…", attention_map=…),
        )

`given` is determined by the seed and contains no answer. A learner fills the slots; marking
rebuilds the sheet from the seed and never trusts the numbers in the learner's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.lessons.parameters import Range

EXERCISES = Catalog("exercise", home="regard.lessons.topics")
SEED_RANGE = Range(0, 999_999)
SCHEMA = 1

Answer = dict[str, Any]
"Slot name to answer: a float64 or boolean tensor, or nested lists of words."


@dataclass(frozen=True)
class Slot:
    """An answer to fill in: its name, shape (None: any size) and element type."""

    name: str
    shape: tuple[int | None, ...]
    element_type: Literal["numbers", "flags", "words"] = "numbers"
    "`flags` are true and false, or 1 and 0."

    @property
    def format(self) -> str:
        """`3 × 4 numbers`, `a word`."""
        if not self.shape:
            return self.element
        sizes = " × ".join("any number of" if size is None else str(size) for size in self.shape)
        elements = "true or false values" if self.element_type == "flags" else self.element_type
        return f"{sizes} {elements}"

    @property
    def element(self) -> str:
        """One element in words: `a number`."""
        names = {"numbers": "a number", "flags": "true or false", "words": "a word"}
        return names[self.element_type]


@dataclass(frozen=True)
class Heatmap:
    """Attention weights or a mask to draw: a row per query, a column per key."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Tensor


@dataclass(frozen=True)
class Mark:
    """Distance of an answer from the goal, and the tolerance."""

    distance: float
    tolerance: float
    feedback: str
    attention_map: Heatmap | None = None

    @property
    def passed(self) -> bool:
        return self.distance <= self.tolerance  # False for NaN


@dataclass(frozen=True)
class ExerciseSheet:
    """An exercise with its numbers."""

    task: str
    given: Mapping[str, Any]
    slots: tuple[Slot, ...]
    mark: Callable[[Answer], Mark] = field(repr=False)


exercise = EXERCISES.add
"Decorator of a function from a seed to a sheet: the exercise of the lesson of this name."


def exercise_names() -> list[str]:
    return EXERCISES.names()


def build_sheet(name: str, seed: int) -> ExerciseSheet:
    """The exercise with the numbers of this seed."""
    entry = EXERCISES.get(name)
    if not SEED_RANGE.low <= seed <= SEED_RANGE.high:
        raise UserError(
            f"a seed of {seed}",
            topic="exercise",
            where=name,
            hint=f"Give a whole number from {SEED_RANGE.low:g} to {SEED_RANGE.high:g}.",
        )
    sheet: ExerciseSheet = entry.part(seed)
    return sheet


def sheet_dict(name: str, seed: int) -> dict[str, Any]:
    """The sheet for the learner, who replaces the nulls under `answer`."""
    sheet = build_sheet(name, seed)
    return {
        "schema": SCHEMA,
        "exercise": name,
        "seed": seed,
        "task": sheet.task,
        "given": {key: _plain(value) for key, value in sheet.given.items()},
        "format": {slot.name: slot.format for slot in sheet.slots},
        "answer": {slot.name: None for slot in sheet.slots},
    }


def max_difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def mark_mask(mask: Tensor, target: Tensor, labels: Sequence[str]) -> Mark:
    """Mark a mask over these positions: its distance is the fraction of wrong pairs."""
    wrong, pairs = int((mask != target).sum()), target.numel()
    feedback = f"{wrong} of {pairs} pairs are wrong; your mask is drawn."
    return Mark(wrong / pairs, 0.0, feedback, Heatmap(labels, labels, mask.double()))


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return [_plain(row) for row in value] if value.ndim else _number(value)
    return value


def _number(value: Tensor) -> Any:
    """Without the 0.30000000000000004 and −0.0 that rounding leaves."""
    number = value.item()
    return round(number, 6) + 0.0 if isinstance(number, float) else number
