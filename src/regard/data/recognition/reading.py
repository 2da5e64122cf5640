"""A reading: a task that a table may be meant for, its columns by role, and how likely it is.

The weights below are ordinal: what is named and fits by content comes before what only fits by
content. Two readings within `MARGIN` of each other are a question to the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote

from regard.core.errors import UserError

LANGUAGE_MODEL = "language-model"
"The name of the reading without a task: texts alone."

NAMED = 9.0
"Names of the columns say the task, and their content fits."
FITS = 6.0
"The content fits, and no other columns do."
POSSIBLE = 4.0
FALLBACK = 2.0
NAME_BONUS = 2.0
MARGIN = 1.0


@dataclass(frozen=True)
class Reading:
    """One way to read a table."""

    task: str
    "The kind of the task, or `LANGUAGE_MODEL`."
    columns: Mapping[str, str]
    "Column by role: the inputs, then what is predicted; of a language model the text alone."
    score: float
    settings: Mapping[str, float] = field(default_factory=dict)
    "Settings of the task that follow from the values."
    optional: Mapping[str, str] = field(default_factory=dict)
    "Columns of roles that a task can do without."

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that are read to predict."""
        names = tuple(self.columns.values())
        return names if self.task == LANGUAGE_MODEL else names[:-1]

    @property
    def target(self) -> str | None:
        """The column that is predicted."""
        return None if self.task == LANGUAGE_MODEL else tuple(self.columns.values())[-1]

    def describe(self) -> str:
        """`classification of 'review' by 'stars'`"""
        inputs = " and ".join(map(repr, self.inputs))
        if self.target is None:
            return f"language model of {inputs}"
        joint = {"extractive": "extractive answers", "recall": "answers from memory"}
        what = joint.get(self.task, self.task)
        to = "to" if self.task in ("translation", "summarisation") else "by"
        return f"{what} of {inputs} {to} {self.target!r}"

    def flags(self) -> str:
        """The options that choose this reading: `--task pairs --label stars`."""
        texts = "".join(f" --text {quote(name)}" for name in self.inputs)
        label = "" if self.target is None else f" --label {quote(self.target)}"
        return f"--task {self.task}{texts}{label}"


def rank(readings: Sequence[Reading]) -> list[Reading]:
    """The likeliest first; ties keep the order of the columns."""
    return sorted(readings, key=lambda reading: -reading.score)


def rivals(ranked: Sequence[Reading]) -> list[Reading]:
    """The readings about as likely as the first, it included."""
    return [reading for reading in ranked if reading.score > ranked[0].score - MARGIN]


def check_decidable(ranked: Sequence[Reading], *, where: str) -> Reading:
    """The likelier reading where nobody can be asked; refused where two are equally likely."""
    equal = [reading for reading in ranked if reading.score == ranked[0].score]
    if len(equal) > 1:
        shown = "; ".join(f"{reading.describe()} ({reading.flags()})" for reading in equal[:4])
        more = f"; and {len(equal) - 4} more" if len(equal) > 4 else ""
        raise UserError(
            f"{len(equal)} readings are equally likely: {shown}{more}",
            topic="new",
            where=where,
            hint="Choose with --task, --text and --label.",
        )
    return ranked[0]
