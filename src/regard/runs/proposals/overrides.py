"""What the user says of the data, and whether it can be so.

Overrides replace what would be recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.core.errors import UserError, closest, did_you_mean
from regard.core.printable import first_few
from regard.data.readers.records import Unit
from regard.data.recognition.profile import is_missing, profile_column
from regard.data.recognition.reading import LANGUAGE_MODEL, Reading
from regard.data.recognition.table import TableSample
from regard.tasks import TASKS

RECOGNISED = (
    *("classification", "pairs", "regression", "similarity", "extractive", "recall"),
    *("translation", "summarisation", "tagging"),
)


MAX_CLASS_RATE = 0.5
"Fraction of the rows, from which on different labels are no classes."


@dataclass(frozen=True)
class Overrides:
    """What the user said about the data; None and empty: recognise it."""

    task: str | None = None
    texts: tuple[str, ...] = ()
    label: str | None = None
    group: str | None = None
    unit: Unit | None = None
    header: bool | None = None


def check_task(task: str | None) -> None:
    if task is None or task in (*RECOGNISED, LANGUAGE_MODEL):
        return
    if task in TASKS.names():
        raise UserError(
            f"--task {task}: `regard new` writes no recipe for it",
            topic="new",
            hint=f"It knows {', '.join((*RECOGNISED, LANGUAGE_MODEL))}; "
            f"docs/settings.md has the settings of {task}.",
        )
    raise UserError(
        f"--task {task}: unknown{did_you_mean(task, (*RECOGNISED, LANGUAGE_MODEL))}", topic="new"
    )


def check_overrides(table: TableSample, overrides: Overrides) -> None:
    """Raise where an option names no column, or one that cannot be what it says."""
    options = [("--text", text) for text in overrides.texts]
    options += [("--label", overrides.label)] if overrides.label is not None else []
    options += [("--group", overrides.group)] if overrides.group is not None else []
    known = list(table.columns)
    for option, name in options:
        if name not in known or not name.strip():
            shown = first_few(list(map(repr, known)), 12)
            raise UserError(
                f"{option} {name}: no column has this name{closest(name, known, quoted=True)}",
                topic="new",
                where=str(table.path),
                hint=f"There are {shown}.",
            )
        if all(map(is_missing, table.columns[name])):
            raise UserError(
                f"{option} {name}: the column is empty", topic="new", where=str(table.path)
            )
    if overrides.label in overrides.texts:
        what = f"--text and --label are both {overrides.label}: a text does not predict itself"
        raise UserError(what, topic="new", where=str(table.path))


def check_classes(reading: Reading, labels: Sequence[Any], *, where: str) -> None:
    """Raise where the column that the user names as label holds no classes."""
    if reading.task not in ("classification", "pairs"):
        return
    profile = profile_column(reading.columns["label"], labels)
    if profile.distinct == 1:
        what = f"--label {profile.name}: every row has the same, so there is nothing to classify"
    elif profile.distinct > MAX_CLASS_RATE * profile.filled:
        what = (
            f"--label {profile.name}: {profile.distinct:,} different values in {profile.filled:,} "
            "rows are no classes"
        )
    else:
        return
    raise UserError(what, topic="new", where=where, hint="Name the column of the classes.")
