"""Mark answers: parse a file, check it against the exercise's slots, compare; folders give a CSV.

An answer is a filled-in sheet (JSON with `seed` and `answer`), bare JSON (`{"q": [1, 2]}`, or just
`[1, 2]` where there is one slot), or CSV: the rows of the only slot, or for each slot a line with
its name and its rows below (`lessons/located_values.py`). Errors name line and column.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UserError, did_you_mean
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, build_sheet
from regard.lessons.located_values import LocatedValue, named_blocks, read_located

MARK_COLUMNS = ("file", "exercise", "seed", "passed", "distance", "tolerance", "feedback")
FLAGS = {True: True, False: False, "true": True, "false": False}
"1 and 0 hash as True and False and need no entries."


@dataclass(frozen=True)
class MarkedAnswer:
    """The mark of one file, or the problem that kept it from being marked."""

    file: Path
    exercise: str
    seed: int | None
    mark: Mark | None
    problem: str = ""

    def row(self) -> dict[str, Any]:
        mark = self.mark
        return {
            "file": self.file.name,
            "exercise": self.exercise,
            "seed": "" if self.seed is None else self.seed,
            "passed": "yes" if mark is not None and mark.passed else "no",
            "distance": "" if mark is None else f"{mark.distance:.6g}",
            "tolerance": "" if mark is None else f"{mark.tolerance:g}",
            "feedback": self.problem if mark is None else mark.feedback,
        }


def mark_file(name: str, file: Path, *, seed: int | None = None) -> MarkedAnswer:
    """Mark one answer; `seed` is the sheet's seed where the file does not contain it."""
    content = read_located(file)
    sheet_seed = _seed(name, content, seed)
    sheet = build_sheet(name, sheet_seed)
    given = named_blocks(_answer_section(content), [slot.name for slot in sheet.slots])
    return MarkedAnswer(file, name, sheet_seed, sheet.mark(_parse_answer(sheet, given)))


def mark_folder(
    name: str, folder: Path, *, seed: int | None = None, marks: Path | None = None
) -> list[MarkedAnswer]:
    """Mark every .json and .csv file of a folder; an unreadable file does not stop the others.

    `marks` is the file the marks are written to: it may be in the folder, and is not an answer."""
    files = sorted(
        file
        for file in folder.iterdir()
        if file.suffix.lower() in (".json", ".csv")
        and file.is_file()
        and (marks is None or file.resolve() != marks.resolve())
    )
    if not files:
        raise UserError(
            "contains no .json and no .csv file",
            topic="exercise",
            where=str(folder),
            hint="Put one file per learner into it.",
        )
    return [_mark_or_problem(name, file, seed) for file in files]


def marks_csv(marked: Sequence[MarkedAnswer]) -> str:
    """One line per file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, MARK_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for answer in marked:
        writer.writerow({key: _escape_formula(cell) for key, cell in answer.row().items()})
    return out.getvalue()


def _escape_formula(cell: Any) -> Any:
    """A spreadsheet would evaluate a file name such as `=1+1` instead of showing it."""
    risky = isinstance(cell, str) and cell.startswith(("=", "+", "@", "\t", "-"))
    return f"'{cell}" if risky else cell


def _mark_or_problem(name: str, file: Path, seed: int | None) -> MarkedAnswer:
    try:
        return mark_file(name, file, seed=seed)
    except UserError as error:
        return MarkedAnswer(file, name, seed, None, str(error))


def _seed(name: str, content: LocatedValue, seed: int | None) -> int:
    table = content.value if isinstance(content.value, dict) else {}
    stated_exercise, stated_seed = table.get("exercise"), table.get("seed")
    if stated_exercise is not None and stated_exercise.value != name:
        raise stated_exercise.error(
            f"this is an answer to {stated_exercise.value!r}, not to {name!r}"
        )
    if stated_seed is None:
        if seed is None:
            raise UserError(
                "does not state the seed of its sheet",
                topic="exercise",
                where=str(content.file),
                hint="Add --new SEED, the seed of the sheet it answers.",
            )
        return seed
    own_seed = stated_seed.value
    if isinstance(own_seed, bool) or not isinstance(own_seed, int):
        raise stated_seed.error("the seed must be a whole number")
    if seed is not None and own_seed != seed:
        raise stated_seed.error(
            f"the sheet has seed {own_seed}, and --new says {seed}",
            hint="Give the seed of the learner's sheet.",
        )
    return own_seed


def _answer_section(content: LocatedValue) -> LocatedValue:
    """The value under `answer` in a sheet; otherwise the whole content."""
    table = content.value if isinstance(content.value, dict) else {}
    section: LocatedValue = table.get("answer", content)
    return section


def _parse_answer(sheet: ExerciseSheet, given: LocatedValue) -> Answer:
    names = [slot.name for slot in sheet.slots]
    if not isinstance(given.value, dict):
        if len(names) > 1:
            raise given.error(
                f"the exercise has {len(names)} answers: {', '.join(names)}",
                hint=f'Name each: {{"{names[0]}": …, "{names[1]}": …}} as JSON, or as CSV a line '
                f"with {names[0]} alone, its rows below, then {names[1]}.",
            )
        return {names[0]: _parse_slot(sheet.slots[0], given)}
    extra = [key for key in given.value if key not in (*names, "seed", "exercise", "schema")]
    if extra:
        raise given.value[extra[0]].error(
            f"{extra[0]!r} is not an answer of this exercise{did_you_mean(extra[0], names)}"
        )
    for slot in sheet.slots:
        if slot.name not in given.value or given.value[slot.name].value in (None, []):
            nearest = given.value.get(slot.name, given)
            raise nearest.error(f"{slot.name} is missing", hint=f"Give {slot.format}.")
    return {slot.name: _parse_slot(slot, given.value[slot.name]) for slot in sheet.slots}


def _parse_slot(slot: Slot, given: LocatedValue) -> Tensor | list[Any]:
    shaped = given
    if len(slot.shape) < 2 and _is_csv_vector(given):
        shaped = replace(given, value=[cell for row in given.value for cell in row.value])
        if not slot.shape and len(shaped.value) == 1:
            shaped = shaped.value[0]
    _check_shape_and_type(slot, shaped, slot.shape)
    if slot.element_type == "words":
        words: list[Any] = _words(shaped)
        return words
    if slot.element_type == "flags":
        return torch.tensor(_flags(shaped.plain()), dtype=torch.bool)
    return torch.tensor(shaped.plain(), dtype=torch.float64)


def _is_csv_vector(given: LocatedValue) -> bool:
    """Whether CSV rows form a vector: a single row, or a single column."""
    rows = given.value if isinstance(given.value, list) else []
    return (
        bool(rows)
        and all(isinstance(row.value, list) for row in rows)
        and (len(rows) == 1 or all(len(row.value) == 1 for row in rows))
    )


def _check_shape_and_type(slot: Slot, given: LocatedValue, shape: Sequence[int | None]) -> None:
    """Raise at the first value whose shape or type is not the slot's."""
    if not shape:
        if not _has_element_type(slot, given):
            shown = "a list" if isinstance(given.value, list | dict) else repr(given.value)
            raise given.error(f"{shown} is not {slot.element}")
        return
    if not isinstance(given.value, list):
        raise given.error(
            f"{slot.name} needs a list here, and this is {given.value!r}",
            hint=f"Give {slot.format}.",
        )
    if shape[0] is not None and len(given.value) != shape[0]:
        raise given.error(
            f"{slot.name} has {len(given.value)} where {shape[0]} are needed",
            hint=f"Give {slot.format}.",
        )
    for item in given.value:
        _check_shape_and_type(slot, item, shape[1:])


def _has_element_type(slot: Slot, given: LocatedValue) -> bool:
    value = given.value
    if slot.element_type == "words":
        return isinstance(value, str) or given.cell is not None
    if slot.element_type == "flags":
        return isinstance(value, bool | int | str) and value in FLAGS
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)  # JSON may contain 1e999, and Python's parser accepts NaN
    except OverflowError:  # an integer with hundreds of digits
        return False


def _words(given: LocatedValue) -> Any:
    if isinstance(given.value, list):
        return [_words(item) for item in given.value]
    return given.value if given.cell is None else given.cell


def _flags(value: Any) -> Any:
    return [_flags(item) for item in value] if isinstance(value, list) else FLAGS[value]
