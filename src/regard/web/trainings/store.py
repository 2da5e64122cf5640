"""What the page keeps of the trainings it started: a saved recipe, and a folder beside the runs.

    NAME.toml                          the recipe, beside runs/, as `regard train` takes it
    runs/.trainings/NAME/              made before the training begins, and whole or not at all
        training.json                  {"schema": 1, "recipe": "NAME.toml", "started": "…"}
        output.txt                     what `regard train` prints

A training is known by this folder and by its run alone, so a page that was killed and started again
knows it too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from regard.core.errors import UserError
from regard.core.files import atomic_folder, read_json, write_json, write_output
from regard.web.listing import id_of

FOLDER = ".trainings"
RECORD, OUTPUT = "training.json", "output.txt"
SCHEMA = 1
MARK = "# Written by the form of `regard serve`.\n"
"First line of a recipe that the page may replace: it wrote it."
RESERVED = {"pyproject", "ruff", "uv", "cargo", "poetry"}
"Names of files that other tools would read."
OUTPUT_BYTES = 8192
"Of the end of the output, which is shown."


@dataclass(frozen=True)
class StartedTraining:
    """A training that was started from the page."""

    name: str
    runs: Path
    "The folder of the runs."
    started: str
    "ISO 8601, UTC."

    @property
    def id(self) -> str:
        """That of its run."""
        return id_of(self.name)

    @property
    def run(self) -> Path:
        return self.runs / self.name

    @property
    def folder(self) -> Path:
        return self.runs / FOLDER / self.name

    @property
    def output_file(self) -> Path:
        return self.folder / OUTPUT

    def output(self) -> str:
        """The end of what it printed."""
        with suppress(OSError), self.output_file.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - OUTPUT_BYTES))
            return file.read().decode(errors="replace").strip()
        return ""


def save_recipe(home: Path, name: str, toml: str) -> Path:
    """Write a recipe into `home`; a file that the page has not written is never replaced."""
    file = home / f"{name}.toml"
    if name.lower() in RESERVED:
        raise UserError(
            f"{file.name} would be read by other tools",
            topic="recipe",
            hint="Give the recipe another name.",
        )
    text = MARK + toml
    if os.path.lexists(file) and not _is_ours(file, text):
        raise UserError(
            f"{file.name} exists already, and the page has not written it",
            topic="recipe",
            hint="Give the recipe another name.",
        )
    write_output(file, text, topic="recipe", creates_folder=False)
    return file


def record_training(runs: Path, name: str) -> StartedTraining:
    """Make its folder, again if a former attempt left one."""
    training = StartedTraining(name, runs, datetime.now(UTC).isoformat(timespec="seconds"))
    record = {"schema": SCHEMA, "recipe": f"{name}.toml", "started": training.started}
    with atomic_folder(training.folder) as inside:
        write_json(inside / RECORD, record)
        (inside / OUTPUT).touch()
    return training


def read_trainings(runs: Path) -> Iterator[StartedTraining]:
    """All that are known, in order of their names; what is damaged is passed over."""
    try:
        names = sorted(path.name for path in (runs / FOLDER).iterdir())
    except OSError:
        return
    for name in names:
        with suppress(UserError, OSError, KeyError):
            if not name.startswith("."):
                record = read_json(runs / FOLDER / name / RECORD, schema=SCHEMA)
                yield StartedTraining(name, runs, str(record["started"]))


def forget_training(runs: Path, name: str) -> None:
    """Of a run that was deleted."""
    folder = runs / FOLDER / name
    if "/" not in name and (folder / RECORD).is_file():
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(file: Path, text: str) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    with suppress(OSError, UnicodeDecodeError):
        found = file.read_text(encoding="utf-8")
        return found == text or found.startswith(MARK)
    return False
