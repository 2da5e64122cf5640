"""A recipe as callers pass it: a `Recipe`, a file, a run folder, or a dictionary of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from regard.api.arguments import as_path
from regard.core.errors import UserError
from regard.runs.recipe import Recipe

AnyRecipe = Recipe | str | PathLike[str] | Mapping[str, Any]


def as_recipe(recipe: AnyRecipe, changes: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe with the `changes`, dotted keys and their values.

    Paths in a file are relative to it; those of a dictionary, and of `changes`, to the working
    directory.
    """
    if not isinstance(changes, Mapping | None):
        raise UserError(
            f"set is of type {type(changes).__name__}",
            hint='Give a dictionary: {"train.lr": 1e-3}.',
        )
    if isinstance(recipe, Recipe):
        if not changes:
            return recipe
        # What was not set may come from `init_from`.
        table = {
            key: value for key, value in recipe.to_table().items() if key in recipe.model_fields_set
        }
        return Recipe.from_dictionary(table, changes=changes)
    if isinstance(recipe, Mapping):
        return Recipe.from_dictionary(recipe, changes=changes)
    return Recipe.load(as_path(recipe, "recipe"), changes=changes, changed_by="set")
