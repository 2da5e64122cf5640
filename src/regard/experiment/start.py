"""Where a run starts from: nothing, another run, or a recipe whose run is made first.

A recipe named in `start` is run once. Its result is known by its identity (the hash of its
resolved recipe, its data and what it started from itself); a finished run with that identity is
taken as it is, an unfinished one is finished.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError
from regard.experiment.prepare import source_of
from regard.experiment.run import Run, read_config
from regard.experiment.saved import load_saved
from regard.model.model import Model
from regard.own_files import check_kept, used_in
from regard.recipe import Recipe, check_learns
from regard.settings import Settings
from regard.text.tokenizer import Tokenizer, check_same

RunRecipe = Callable[[Recipe, Path], Run]


@dataclass(frozen=True)
class Start:
    """A trained model to go on from."""

    run: Run
    folder: Path
    "The model's folder, found whole."
    tokenizer: Tokenizer
    identity: str


def find_start(
    recipe: Recipe, *, runs: Path, run_recipe: RunRecipe, after: tuple[Path, ...] = ()
) -> Start | None:
    """The starting point, made first where it has to be; `after` are the recipes that led here."""
    if recipe.start is None:
        return None
    place = Path(recipe.start)
    if place.suffix == ".toml":
        if place.resolve() in after:
            raise UserError(
                f"start = {recipe.start!r} leads back to itself",
                topic="recipe",
                where=str(place),
                mend="The first recipe of a chain has no start.",
            )
        chain = (*after, place.resolve())
        return _opened(
            _result_of(Recipe.load(place), runs=runs, run_recipe=run_recipe, after=chain)
        )
    if not Run(place).recipe_file.is_file():
        raise UserError(
            f"start = {recipe.start!r}: there is no such run folder or recipe",
            topic="recipe",
            mend='Give a folder such as "runs/mini-gpt", or a recipe such as "pretrain.toml".',
        )
    return _opened(Run(place))


def preview_start(recipe: Recipe, *, runs: Path) -> tuple[Recipe, Start | None]:
    """Like `find_start`, but trains nothing: a start not made yet only lends its settings."""

    def not_yet(first: Recipe, folder: Path) -> Run:
        raise _NotYetError(first)

    try:
        return recipe, find_start(recipe, runs=runs, run_recipe=not_yet)
    except _NotYetError as missing:
        first = missing.recipe
        return recipe.model_copy(update={"start": None, **_lent(recipe, first)}), None


class _NotYetError(Exception):
    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe.name)
        self.recipe = recipe


def inherit(recipe: Recipe, start: Start | None) -> Recipe:
    """The recipe with model and tokenizer of its starting point; asking for others is an error."""
    if start is None:
        return recipe
    theirs = start.run.recipe()
    for key in ("model", "tokenizer"):
        given = recipe.model_fields_set
        if key in given and getattr(recipe, key) != getattr(theirs, key):
            differs = recipe.model_copy(update={"name": theirs.name}).differences(theirs)
            shown = "; ".join(line for line in differs if line.startswith(f"{key}."))
            raise UserError(
                f"{recipe.start} has another {key} ({shown})",
                topic="recipe",
                mend=f"Leave [{key}] out to take over the one it has.",
            )
    return recipe.model_copy(update=_lent(recipe, theirs))


def _lent(recipe: Recipe, theirs: Recipe) -> dict[str, Settings]:
    """What a starting point lends; its objective too, unless the recipe has one of its own."""
    lent: dict[str, Settings] = {"model": theirs.model, "tokenizer": theirs.tokenizer}
    if "objective" not in recipe.model_fields_set:
        check_learns(theirs.model, theirs.objective, recipe.task)
        return {**lent, "objective": theirs.objective}
    check_learns(theirs.model, recipe.objective, recipe.task)
    return lent


def identity_of(recipe: Recipe, *, source: str, start: Start | None) -> str:
    """The same for two runs exactly if they are the same experiment."""
    own = sorted(file.sha256 for file in used_in(recipe.to_table()))
    facts = (recipe.fingerprint, source, start.identity if start else "nothing", *own)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def body_of(start: Start) -> Model:
    """The trained model, without the head of a task it may have."""
    return load_saved(start.folder, place=start.run.folder, tokenizer=start.tokenizer).body


def _opened(run: Run) -> Start:
    folder = run.model_folder()
    check_kept(used_in(run.recipe().to_table()), run.folder)
    tokenizer = Tokenizer.load(folder)
    config = read_config(folder)
    check_same(config["tokenizer"], tokenizer, owner=f"model {run.folder}")
    return Start(run, folder, tokenizer, str(run.figures()["identity"]))


def _result_of(
    recipe: Recipe, *, runs: Path, run_recipe: RunRecipe, after: tuple[Path, ...]
) -> Run:
    before = find_start(recipe, runs=runs, run_recipe=run_recipe, after=after)
    resolved = inherit(recipe, before)
    source = source_of(recipe)
    identity = identity_of(resolved, source=source, start=before)
    own = runs / f"{recipe.name}-{identity[:8]}"
    for folder in (runs / recipe.name, own):
        run = Run(folder)
        if run.is_finished and run.figures().get("identity") == identity:
            return run
    return run_recipe(recipe, own)
