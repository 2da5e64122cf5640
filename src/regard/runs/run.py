"""A run folder, the only lasting truth of an experiment.

    runs/<name>/recipe.toml (resolved)   audit.json   events.jsonl   figures.json   report.html
                samples.txt   checkpoints/step-000500/   final/   with/ (the person's own files)

It comes into being in one step, holding its recipe, and is finished when figures.json is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.files import atomic_folder, find_damage, read_json, write_text
from regard.core.user_files import check_same_code, copy_to_run, files_used_by
from regard.runs.recipe import Recipe
from regard.training.checkpoint import CONFIG_SCHEMA, latest_intact_checkpoint

FIGURES_SCHEMA = 1
AUDIT_SCHEMA = 1


@dataclass(frozen=True)
class Run:
    """The places of a run."""

    folder: Path

    @property
    def recipe_file(self) -> Path:
        return self.folder / "recipe.toml"

    @property
    def events_file(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def audit_file(self) -> Path:
        return self.folder / "audit.json"

    @property
    def figures_file(self) -> Path:
        return self.folder / "figures.json"

    @property
    def samples_file(self) -> Path:
        return self.folder / "samples.txt"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def final(self) -> Path:
        return self.folder / "final"

    @property
    def is_finished(self) -> bool:
        return self.figures_file.is_file() and self.final.is_dir()

    def recipe(self) -> Recipe:
        return Recipe.load(self.recipe_file)

    def figures(self) -> dict[str, Any]:
        return read_json(self.figures_file, schema=FIGURES_SCHEMA)

    def model_folder(self) -> Path:
        """The folder of the trained model; an error says what is wrong and what is still whole."""
        if not self.final.is_dir():
            raise UserError(
                f"{self.folder} has no trained model yet",
                topic="run",
                hint=f"Finish it: regard train {self.folder} --resume",
            )
        return check_whole(self.final, fallback=self.checkpoints)


def refuse_existing(folder: Path) -> None:
    if folder.exists():
        raise UserError(
            f"{folder} exists already",
            topic="run",
            hint="Add --resume to go on with it, --out ANOTHER_FOLDER to begin anew, or delete it.",
        )


def create_run(folder: Path, recipe: Recipe) -> Run:
    """A new run folder with its recipe in it; one that exists is never touched."""
    refuse_existing(folder)
    with atomic_folder(folder) as inside:
        write_text(inside / "recipe.toml", recipe.to_toml())
        copy_to_run(files_used_by(recipe.to_table()), inside)
    return Run(folder)


def reopen_run(folder: Path, recipe: Recipe) -> Run:
    """A run to go on with; its recipe has to ask for the same."""
    run = Run(folder)
    if not run.recipe_file.is_file():
        raise UserError(
            f"{folder} is not a run folder: it has no recipe.toml",
            topic="run",
            hint="Choose another --out.",
        )
    differences = recipe.differences(run.recipe())
    if differences:
        raise UserError(
            f"{folder} was begun with another recipe ({'; '.join(differences[:3])})",
            topic="run",
            hint=f"Resume with its own: regard train {folder} --resume; or choose another --out.",
        )
    check_same_code(files_used_by(recipe.to_table()), folder)
    return run


def check_whole(folder: Path, *, fallback: Path | None = None) -> Path:
    """The folder itself, or an error which names the damaged file and what is still whole."""
    complaint = find_damage(folder)
    if complaint is None:
        return folder
    whole, _ = latest_intact_checkpoint(fallback) if fallback else (None, [])
    raise UserError(
        complaint,
        topic="run",
        hint=(
            f"Step {int(whole.name.removeprefix('step-'))} is whole: use {whole}, "
            f"or delete {folder} and run: regard train {folder.parent} --resume"
            if whole
            else "Train it again."
        ),
    )


def read_config(folder: Path) -> dict[str, Any]:
    return read_json(folder / "config.json", schema=CONFIG_SCHEMA)
