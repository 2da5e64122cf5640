"""Studies with hostile values: one sentence, or a study that can be planned."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

from tests.torture.harness import Target
from tests.torture.hostile_values import mutate
from tests.torture.targets.recipes import RECIPES, refuse, write

from regard.core.errors import UserError
from regard.studies.study import LoadedStudy


def read(home: Path) -> list[tuple[Path, dict[str, Any]]]:
    tables = [(file, tomllib.loads(file.read_text("utf-8"))) for file in RECIPES.rglob("*.toml")]
    return sorted((item for item in tables if "variants" in item[1]), key=lambda item: item[0])


def trial(
    studies: list[tuple[Path, dict[str, Any]]], generator: random.Random, folder: Path
) -> str:
    file, table = generator.choice(studies)
    changed = mutate(table, generator, changes=generator.randrange(1, 4))
    if isinstance(base := changed.get("base"), str) and base == table["base"]:
        changed["base"] = str(file.parent / base)
    for name, value in table.get("variants", {}).items():
        kept = changed.get("variants")
        if isinstance(value, str) and isinstance(kept, dict) and kept.get(name) == value:
            kept[name] = str(file.parent / value)
    write(changed, folder / "study.toml", generator)
    try:
        loaded = LoadedStudy.load(folder / "study.toml")
        assert loaded.reference in loaded.variants
    except UserError as problem:
        return refuse(problem)
    return "accepted"


TARGET = Target(
    "studies",
    "studies with hostile values, or damaged: one sentence, or a study whose variants load",
    5_000,
    trial,
    read,
    batch=100,
)
