"""The error where a folder that should be a run is none."""

from __future__ import annotations

from pathlib import Path

from regard.core.errors import UserError

RUNS = Path("runs")


def missing_run(folder: Path, what: str) -> UserError:
    """With the run that is meant, where its name alone is given."""
    inside = RUNS / folder
    hint = "`regard train` makes run folders."
    if not folder.exists() and (inside / "recipe.toml").is_file():
        hint = f"Give its folder: {inside}."
    return UserError(f"{folder} {what}", topic="run", hint=hint)
