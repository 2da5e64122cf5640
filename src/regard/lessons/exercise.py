"""Exercises: a lesson's question with numbers of one's own, and a mark for an answer.

    @exercise("average-of-two")
    def average_of_two_exercise(seed: int) -> Posed:
        …
        return Posed(
            task="Find a query q whose output is the average of values 1 and 2.",
            given={"keys": keys, "values": values},
            slots=(Slot("q", (4,)),),
            mark=lambda answer: Mark(distance=…, within=0.01, says="…", weights=…),
        )

What is given follows from the seed alone, and holds no answer. A learner fills the slots; marking
poses the exercise again from the seed and never trusts the numbers in the learner's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.lessons.parameters import Range

EXERCISES = Catalog("exercise", home="regard.lessons.topics")
SEEDS = Range(0, 999_999)
SCHEMA = 1

Answer = dict[str, Any]
"A slot's name, and what was put in: a float64 or boolean tensor, or a list of lists of words."


@dataclass(frozen=True)
class Slot:
    """A place for an answer: its name, its sizes (None: as many as one likes), what it holds."""

    name: str
    shape: tuple[int | None, ...]
    of: Literal["numbers", "flags", "words"] = "numbers"
    "`flags` are true and false, or 1 and 0."

    @property
    def wanted(self) -> str:
        """`3 × 4 numbers`, `pairs of words`."""
        if not self.shape:
            return {"numbers": "a number", "flags": "true or false", "words": "a word"}[self.of]
        sizes = " × ".join("any number of" if size is None else str(size) for size in self.shape)
        kind = "true or false values" if self.of == "flags" else self.of
        return f"{sizes} {kind}"


@dataclass(frozen=True)
class Weights:
    """Weights to be drawn: a row for each query, a column for each key."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Tensor


@dataclass(frozen=True)
class Mark:
    """How far an answer is from the goal."""

    distance: float
    within: float
    says: str
    weights: Weights | None = None

    @property
    def passed(self) -> bool:
        return self.distance <= self.within  # False where the distance is NaN


@dataclass(frozen=True)
class ExerciseSheet:
    """An exercise with its numbers."""

    task: str
    given: Mapping[str, Any]
    slots: tuple[Slot, ...]
    mark: Callable[[Answer], Mark] = field(repr=False)


PoseFunction = Callable[[int], ExerciseSheet]


def exercise(name: str) -> Callable[[PoseFunction], PoseFunction]:
    """Decorator: the exercise of the lesson of this name."""

    def register(function: PoseFunction) -> PoseFunction:
        return EXERCISES.add(name)(function)

    return register


def exercise_names() -> list[str]:
    return EXERCISES.names()


def pose(name: str, seed: int) -> ExerciseSheet:
    """The exercise with the numbers that follow from the seed."""
    entry = EXERCISES.get(name)
    if not SEEDS.low <= seed <= SEEDS.high:
        raise UserError(
            f"a seed of {seed}",
            topic="exercise",
            where=name,
            hint=f"Give a whole number from {SEEDS.low:g} to {SEEDS.high:g}.",
        )
    posed: ExerciseSheet = entry.part(seed)
    return posed


def sheet(name: str, seed: int) -> dict[str, Any]:
    """The exercise as a learner gets it: fill in what is null under `answer`."""
    posed = pose(name, seed)
    return {
        "schema": SCHEMA,
        "exercise": name,
        "seed": seed,
        "task": posed.task,
        "given": {key: _plain(value) for key, value in posed.given.items()},
        "wanted": {slot.name: slot.wanted for slot in posed.slots},
        "answer": {slot.name: None for slot in posed.slots},
    }


def numbers(*shape: int, seed: int, decimals: int = 2) -> Tensor:
    """Numbers fit for paper: normal, rounded."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return torch.round(drawn, decimals=decimals)


def far(found: Tensor, wanted: Tensor) -> float:
    """The largest difference."""
    return float((found - wanted).abs().max())


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return [_plain(one) for one in value] if value.ndim else _number(value)
    return value


def _number(value: Tensor) -> Any:
    """Rounding leaves 0.30000000000000004 and −0.0 behind; paper does not."""
    number = value.item()
    return round(number, 6) + 0.0 if isinstance(number, float) else number
