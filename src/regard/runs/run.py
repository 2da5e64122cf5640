"""A run folder: everything that remains of an experiment.

    runs/<name>/recipe.toml (resolved)   origin.json   audit.json   events.jsonl   items/
                results.json   report.html   samples.txt   checkpoints/step-000500/   final/
                seal.json   with/ (the user's Python files)

The folder is created atomically with its recipe inside. The run is finished when it has a
results.json, and sealed: files that change after that are not believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.files import MANIFEST, atomic_folder, find_damage, write_text
from regard.core.html_display import HtmlDisplay
from regard.core.seal import check_sealed
from regard.core.user_files import check_same_code, copy_to_run, files_used_by
from regard.runs.recipe import Recipe
from regard.runs.recipe_paths import write_origin
from regard.runs.results import ResultsRecord, read_results
from regard.training.checkpoint import latest_intact_checkpoint


@dataclass(frozen=True)
class Run(HtmlDisplay):
    """Paths of a run folder."""

    folder: Path

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        """`<Run mini-gpt: dev perplexity 251 [238, 265], audit clean>`"""
        try:
            results = read_results(self.results_file)
        except UserError as problem:
            return f"<Run {self.folder.name}: {problem.what}>"
        state = "not finished" if self.folder.is_dir() else "no such folder"
        return f"<Run {self.folder.name}: {results.summary if results else state}>"

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
    def results_file(self) -> Path:
        return self.folder / "results.json"

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
        return self.results_file.is_file() and self.final.is_dir()

    def recipe(self, *, changes: Mapping[str, Any] | None = None) -> Recipe:
        """The recipe it was trained with; `changes` are dotted keys with other values."""
        hint = "Put the old file back, or train its recipe again with --out ANOTHER_FOLDER."
        check_sealed(self.folder, self.recipe_file.name, topic="run", hint=hint)
        return Recipe.load(self.recipe_file, changes=changes, changed_by="data.corpus")

    def results(self) -> ResultsRecord:
        results = read_results(self.results_file)
        if results is None:
            raise UserError(
                f"{self.results_file} is missing: the run is not finished",
                topic="run",
                hint=f"Finish it: regard train {self.folder} --resume",
            )
        return results

    def model_folder(self) -> Path:
        """The folder of the trained model; if damaged, the error names an intact checkpoint."""
        if not self.final.is_dir():
            raise UserError(
                f"{self.folder} has no trained model yet",
                topic="run",
                hint=f"Finish it: regard train {self.folder} --resume",
            )
        hint = f"Use a checkpoint below {self.checkpoints}, or train the run again."
        check_sealed(self.folder, f"{self.final.name}/{MANIFEST}", topic="run", hint=hint)
        return check_intact(self.final, fallback=self.checkpoints)


def check_new_folder(folder: Path) -> None:
    if folder.exists():
        raise UserError(
            f"{folder} exists already",
            topic="run",
            hint="Add --resume to continue it, --out ANOTHER_FOLDER to start again, or delete it.",
        )


def create_run(folder: Path, recipe: Recipe) -> Run:
    """Create a run folder with its recipe; an existing folder is never touched."""
    check_new_folder(folder)
    with atomic_folder(folder) as temporary:
        write_text(temporary / "recipe.toml", recipe.to_toml())
        write_origin(temporary, folder)
        copy_to_run(files_used_by(recipe.to_table()), temporary)
    return Run(folder)


def reopen_run(folder: Path, recipe: Recipe) -> Run:
    """Open a run to resume; its recipe must be the same."""
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
            f"{folder} was started with another recipe ({'; '.join(differences[:3])})",
            topic="run",
            hint=f"Resume with its own: regard train {folder} --resume; or choose another --out.",
        )
    check_same_code(files_used_by(recipe.to_table()), folder)
    return run


def write_paths(run: Run, recipe: Recipe) -> None:
    """Of a run that may have moved: what it writes from now on has paths as seen from here."""
    write_text(run.recipe_file, recipe.to_toml())
    write_origin(run.folder, run.folder)


def check_intact(folder: Path, *, fallback: Path | None = None) -> Path:
    """`folder` if it is intact; else an error that names the damaged file and the latest intact
    checkpoint below `fallback`."""
    damage = find_damage(folder)
    if damage is None:
        return folder
    intact, _ = latest_intact_checkpoint(fallback) if fallback else (None, [])
    raise UserError(
        damage,
        topic="run",
        hint=(
            f"Step {int(intact.name.removeprefix('step-'))} is intact: use {intact}, "
            f"or delete {folder} and run: regard train {folder.parent} --resume"
            if intact
            else "Train it again."
        ),
    )
