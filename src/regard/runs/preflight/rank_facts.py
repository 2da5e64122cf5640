"""What has to be the same on every rank, by name: versions, recipe, files, and what follows."""

from __future__ import annotations

import platform
from collections.abc import Mapping

import torch

from regard import __version__
from regard.core.toml import flatten
from regard.core.user_files import files_used_by
from regard.runs.experiment import Experiment
from regard.runs.preparation.recipe_data import open_data
from regard.runs.recipe import Recipe


def recipe_facts(recipe: Recipe) -> Mapping[str, str]:
    """Before anything is read."""
    table = recipe.to_table()
    return {
        "regard": __version__,
        "torch": torch.__version__,
        "Python": platform.python_version(),
        **{key: repr(value) for key, value in flatten(table).items()},
        **{f"--with {file.path.name}": file.sha256[:12] for file in files_used_by(table)},
    }


def file_facts(recipe: Recipe) -> Mapping[str, str]:
    """The data files; each is read once to hash it."""
    corpus = open_data(recipe)
    identities = [(f"data.{role}", one) for role, one in corpus.identities()]
    if recipe.task is not None:
        identities += [("task", one) for one in recipe.task.extra_sources()]
    return {
        f"{role}, {one.name}": f"{one.size:,} bytes, SHA-256 {one.sha256[:12]}"
        for role, one in identities
    }


def experiment_facts(experiment: Experiment) -> Mapping[str, str]:
    initial_model = experiment.initial_model
    return {
        "tokenizer": experiment.prepared.tokenizer.fingerprint,
        "init_from": initial_model.identity if initial_model is not None else "",
        "the order of batches": experiment.loader.order_fingerprint(),
    }
