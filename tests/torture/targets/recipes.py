"""Recipes with hostile values, or damaged as text: one sentence, or the same recipe back."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from tests.torture.commands import flip_bits
from tests.torture.harness import Failure, Target
from tests.torture.hostile_values import mutate

from regard.core.errors import UserError
from regard.core.ledger import total_parameters
from regard.runs.recipe import Recipe

RECIPES = Path(__file__).parents[3] / "recipes"
LONGEST = 6000


def read(home: Path) -> list[dict[str, Any]]:
    tables = [tomllib.loads(file.read_text("utf-8")) for file in sorted(RECIPES.rglob("*.toml"))]
    return [table for table in tables if "variants" not in table and "base" not in table]


def write(table: dict[str, Any], file: Path, generator: random.Random) -> None:
    try:
        text = tomli_w.dumps(table).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError):  # no TOML: lists of nothing
        text = repr(table).encode("utf-8", "surrogatepass")
    file.write_bytes(flip_bits(text, generator) if generator.random() < 0.2 else text)


def refuse(problem: UserError) -> str:
    if len(str(problem)) > LONGEST:
        raise Failure("crashed", f"an error of {len(str(problem)):,} characters")
    return "refused"


def trial(tables: list[dict[str, Any]], generator: random.Random, folder: Path) -> str:
    table = mutate(generator.choice(tables), generator, changes=generator.randrange(1, 4))
    file = folder / "recipe.toml"
    write(table, file, generator)
    overrides = ["train.lr=" + "9" * generator.choice((1, 5000))] * (generator.random() < 0.05)
    try:
        recipe = Recipe.load(file, overrides=overrides)
        total_parameters(recipe.model.count_parameters(1000))
        (folder / "again.toml").write_text(recipe.to_toml(), encoding="utf-8")
        if Recipe.load(folder / "again.toml").fingerprint != recipe.fingerprint:
            raise Failure("believed", "another recipe when written and read again")
    except UserError as problem:
        return refuse(problem)
    return "accepted, and the same when read again"


TARGET = Target(
    "recipes",
    "recipes with hostile values, or damaged: one sentence, or the same recipe read again",
    20_000,
    trial,
    read,
    batch=200,
)
