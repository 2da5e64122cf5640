"""The data of a recipe: its corpus, opened, and a hash of every file it comes from."""

from __future__ import annotations

import hashlib
import json

from regard.core.errors import UserError
from regard.data.corpus import Corpus, open_corpus
from regard.runs.recipe import Recipe
from regard.tasks import Task


def open_data(recipe: Recipe) -> Corpus:
    """Open the recipe's texts or its task's rows; nothing is read yet."""
    if recipe.task is None:
        return open_corpus(recipe.data)
    task = recipe.task
    _check_distinct(task)
    return open_corpus(
        recipe.data,
        task.columns(),
        types=task.column_types(),
        optional=task.optional_columns(),
        settings=task.column_settings(),
    )


def _check_distinct(task: Task) -> None:
    """One column is no two roles: a text does not predict itself."""
    by_column: dict[str, str] = {}
    for role in task.column_roles:
        column = task.columns()[role]
        if (other := by_column.setdefault(column, role)) != role:
            settings = [task.column_settings().get(one, f"task.{one}") for one in (other, role)]
            raise UserError(
                f"{settings[0]} and {settings[1]} are both {column!r}",
                topic="recipe",
                hint="Name another column for one of them.",
            )


def data_fingerprint(recipe: Recipe) -> str:
    """Hash that changes with any file of the recipe's data."""
    return corpus_fingerprint(open_data(recipe), recipe.task)


def corpus_fingerprint(corpus: Corpus, task: Task | None) -> str:
    """Hash of the files of a corpus and of its task."""
    facts = [(role, *identity) for role, identity in corpus.identities()]
    if task is not None:
        facts += [("task", *identity) for identity in task.extra_sources()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
