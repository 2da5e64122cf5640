"""The data of a recipe: its corpus, opened, and a hash of every file it comes from."""

from __future__ import annotations

import hashlib
import json

from regard.data.corpus import Corpus, open_corpus
from regard.runs.recipe import Recipe
from regard.tasks import Task


def open_data(recipe: Recipe) -> Corpus:
    """Open the recipe's texts or its task's rows; nothing is read yet."""
    if recipe.task is None:
        return open_corpus(recipe.data)
    task = recipe.task
    return open_corpus(
        recipe.data,
        task.columns(),
        types=task.column_types(),
        optional=task.optional_columns(),
        settings=task.column_settings(),
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
