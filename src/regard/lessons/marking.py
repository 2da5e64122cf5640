"""Marking answers: a file is read, held against its slots, and marked; a folder gives a table.

An answer is a sheet filled in (JSON with `seed` and `answer`), bare JSON (`{"q": [1, 2]}` or just
`[1, 2]` where there is one slot), or CSV: rows of the one slot, or a line with the name of each
slot and its rows below (`lessons/located.py`). What does not fit is told with line and column.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UserError, did_you_mean
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, pose
from regard.lessons.located import LocatedValue, named_blocks, read_located

COLUMNS = ("file", "exercise", "seed", "passed", "distance", "within", "says")
FLAGS = {True: True, False: False, "true": True, "false": False}
"1 and 0 are equal to True and False, and are found as these."


@dataclass(frozen=True)
class MarkedAnswer:
    """One file's mark; a file that cannot be read has no mark and says why."""

    file: Path
    exercise: str
    seed: int | None
    mark: Mark | None
    problem: str = ""

    def row(self) -> dict[str, Any]:
        found = self.mark
        return {
            "file": self.file.name,
            "exercise": self.exercise,
            "seed": "" if self.seed is None else self.seed,
            "passed": "yes" if found is not None and found.passed else "no",
            "distance": "" if found is None else f"{found.distance:.6g}",
            "within": "" if found is None else f"{found.within:g}",
            "says": self.problem if found is None else found.says,
        }


def mark_file(name: str, file: Path, *, seed: int | None = None) -> MarkedAnswer:
    """Mark one answer; `seed` says which numbers it is for, where the file does not."""
    read = read_located(file)
    chosen = _seed(name, read, file, seed)
    posed = pose(name, chosen)
    given = named_blocks(_given(read), [slot.name for slot in posed.slots], file)
    answer = _answer(posed, given, file)
    return MarkedAnswer(file, name, chosen, posed.mark(answer))


def mark_folder(
    name: str, folder: Path, *, seed: int | None = None, marks: Path | None = None
) -> list[MarkedAnswer]:
    """Mark every .json and .csv file of a folder; one that cannot be read stops nobody else.

    `marks` is the file that the marks go to: it may lie in the folder, and is no answer."""
    files = sorted(
        one
        for one in folder.iterdir()
        if one.suffix.lower() in (".json", ".csv")
        and one.is_file()
        and (marks is None or one.resolve() != marks.resolve())
    )
    if not files:
        raise UserError(
            "holds no .json and no .csv file",
            topic="exercise",
            where=str(folder),
            hint="Put one file for each learner into it.",
        )
    return [_mark_or_say(name, file, seed) for file in files]


def marks_csv(marked: Sequence[MarkedAnswer]) -> str:
    """A line for each file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _inert(cell) for key, cell in one.row().items()} for one in marked)
    return out.getvalue()


def _inert(cell: Any) -> Any:
    """A file may be named `=1+1`: in a spreadsheet that would be computed, not shown."""
    risky = isinstance(cell, str) and cell.startswith(("=", "+", "@", "\t", "-"))
    return f"'{cell}" if risky else cell


def _mark_or_say(name: str, file: Path, seed: int | None) -> MarkedAnswer:
    try:
        return mark_file(name, file, seed=seed)
    except UserError as problem:
        return MarkedAnswer(file, name, seed, None, str(problem))


def _seed(name: str, read: LocatedValue, file: Path, seed: int | None) -> int:
    table = read.value if isinstance(read.value, dict) else {}
    own = table.get("exercise")
    if own is not None and own.value != name:
        raise UserError(
            f"this is an answer to {own.value!r}, not to {name!r}",
            topic="exercise",
            where=own.where(str(file)),
        )
    told = table.get("seed")
    if told is not None and (isinstance(told.value, bool) or not isinstance(told.value, int)):
        raise UserError("the seed is a whole number", topic="exercise", where=told.where(str(file)))
    if told is not None and seed is not None and told.value != seed:
        raise UserError(
            f"the sheet has seed {told.value}, and --new says {seed}",
            topic="exercise",
            where=told.where(str(file)),
            hint="Give the seed that the learner was given.",
        )
    if told is not None:
        own_seed: int = told.value
        return own_seed
    if seed is None:
        raise UserError(
            "does not say for which numbers it is",
            topic="exercise",
            where=str(file),
            hint="Add --new SEED, the seed of the sheet it answers.",
        )
    return seed


def _given(read: LocatedValue) -> LocatedValue:
    """What stands under `answer` in a sheet; else the whole."""
    if isinstance(read.value, dict) and "answer" in read.value:
        inner: LocatedValue = read.value["answer"]
        return inner
    return read


def _answer(posed: ExerciseSheet, given: LocatedValue, file: Path) -> Answer:
    names = [slot.name for slot in posed.slots]
    if not isinstance(given.value, dict):
        if len(names) > 1:
            raise UserError(
                f"{len(names)} things are asked for: {', '.join(names)}",
                topic="exercise",
                where=given.where(str(file)),
                hint=f'Name each: {{"{names[0]}": …, "{names[1]}": …}} as JSON, or as CSV a line '
                f"with {names[0]} alone, its rows below, then {names[1]}.",
            )
        return {names[0]: _filled(posed.slots[0], given, file)}
    extra = [key for key in given.value if key not in (*names, "seed", "exercise", "schema")]
    if extra:
        raise UserError(
            f"{extra[0]!r} is not asked for{did_you_mean(extra[0], names)}",
            topic="exercise",
            where=given.value[extra[0]].where(str(file)),
        )
    missing = [
        name for name in names if name not in given.value or given.value[name].value in (None, [])
    ]
    if missing:
        slot = posed.slots[names.index(missing[0])]
        place = given.value.get(slot.name, given)
        raise UserError(
            f"{slot.name} is missing",
            topic="exercise",
            where=place.where(str(file)),
            hint=f"Give {slot.wanted}.",
        )
    return {slot.name: _filled(slot, given.value[slot.name], file) for slot in posed.slots}


def _filled(slot: Slot, given: LocatedValue, file: Path) -> Tensor | list[Any]:
    shaped = given
    if len(slot.shape) < 2 and _is_one_row_of_csv(given):
        shaped = _flat(given)
        if not slot.shape and len(shaped.value) == 1:
            shaped = shaped.value[0]
    _check(slot, shaped, slot.shape, file)
    if slot.of == "words":
        words: list[Any] = _words(shaped)
        return words
    if slot.of == "flags":
        return torch.tensor(_flags(shaped.plain()), dtype=torch.bool)
    return torch.tensor(shaped.plain(), dtype=torch.float64)


def _is_one_row_of_csv(given: LocatedValue) -> bool:
    """A vector may stand in one row, or in a column of one number a row."""
    rows = given.value if isinstance(given.value, list) else []
    return (
        bool(rows)
        and all(isinstance(row.value, list) for row in rows)
        and (len(rows) == 1 or all(len(row.value) == 1 for row in rows))
    )


def _flat(given: LocatedValue) -> LocatedValue:
    return LocatedValue(
        [cell for row in given.value for cell in row.value], given.line, given.column
    )


def _check(slot: Slot, given: LocatedValue, shape: Sequence[int | None], file: Path) -> None:
    """That the value has the slot's shape and sort; the first thing that has not is named."""
    where = given.where(str(file))
    if not shape:
        if not _fits(slot, given):
            shown = "a list" if isinstance(given.value, list | dict) else repr(given.value)
            kind = {"numbers": "a number", "flags": "true or false", "words": "a word"}[slot.of]
            raise UserError(f"{shown} is not {kind}", topic="exercise", where=where)
        return
    if not isinstance(given.value, list):
        raise UserError(
            f"{slot.name} needs a list here, and this is {given.value!r}",
            topic="exercise",
            where=where,
            hint=f"Give {slot.wanted}.",
        )
    if shape[0] is not None and len(given.value) != shape[0]:
        raise UserError(
            f"{slot.name} has {len(given.value)} where {shape[0]} are needed",
            topic="exercise",
            where=where,
            hint=f"Give {slot.wanted}.",
        )
    for one in given.value:
        _check(slot, one, shape[1:], file)


def _fits(slot: Slot, given: LocatedValue) -> bool:
    value = given.value
    if slot.of == "words":
        return isinstance(value, str) or given.cell is not None
    if slot.of == "flags":
        return isinstance(value, bool | int | str) and value in FLAGS
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)  # JSON may hold 1e999, and Python's reader takes NaN
    except OverflowError:  # a whole number with hundreds of digits
        return False


def _words(given: LocatedValue) -> Any:
    if isinstance(given.value, list):
        return [_words(one) for one in given.value]
    return given.value if given.cell is None else given.cell


def _flags(value: Any) -> Any:
    return [_flags(one) for one in value] if isinstance(value, list) else FLAGS[value]
