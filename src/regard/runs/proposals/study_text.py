"""A first study as TOML text: the recipe as it was proposed against one change of it."""

from __future__ import annotations

from pathlib import Path

import tomli_w

from regard.data.recognition.profile import profile_column
from regard.data.recognition.reading import Reading
from regard.runs.proposals.recipe_text import RecipeSetting, recipe_toml
from regard.runs.proposals.recognise import SourceContents
from regard.runs.proposals.task_model import Change

MAX_MAJORITY = 0.8
"Fraction of the rows of one class, from which on accuracy says little."


def deciding_score(found: SourceContents, reading: Reading) -> str:
    """Macro-F1 where one class has most rows; empty leaves it to the task."""
    if reading.task not in ("classification", "pairs") or found.table is None:
        return ""
    profile = profile_column("", found.table.columns[reading.columns["label"]])
    return "dev.macro_f1" if profile.majority_rate >= MAX_MAJORITY else ""


def study_toml(recipe_file: Path, change: Change, *, decides: str) -> str:
    score = [RecipeSetting("decides", decides, "most rows have one label")] if decides else []
    above = [
        RecipeSetting("base", recipe_file.name),
        RecipeSetting("question", change.question),
        *score,
        RecipeSetting("seeds", [0, 1, 2], "five show smaller differences"),
    ]
    about = f"The recipe against one change of it: regard compare {recipe_file.stem}-study.toml"
    changed = f"[variants.{change.name}]\n{tomli_w.dumps({change.setting: change.value})}"
    return f"{recipe_toml([about], {'': above})}\n[variants.as-proposed]\n\n{changed}"
