"""Trainings that led to a run's initial model: what the run measures may stand in their data.

init_from = "first.toml"      and first.toml trained on texts that dev or test hold here
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.data.corpus import Corpus, Split
from regard.data.overlap.normalise import normalise
from regard.data.statistics import SplitOverlap
from regard.interop.packages import PIP_PREFIX
from regard.runs.preparation.overlap import HELD_OUT, SplitItems, find_overlap
from regard.runs.preparation.recipe_data import corpus_fingerprint, open_data
from regard.runs.recipe import Recipe
from regard.runs.recipe_paths import run_around
from regard.tasks import Task


@dataclass(frozen=True)
class EarlierTraining:
    """The training data of one of them."""

    name: str
    corpus: Corpus
    task: Task | None
    source: str
    "Hash of the data."

    @classmethod
    def of(cls, recipe: Recipe) -> EarlierTraining:
        corpus = open_data(recipe)
        if recipe.data.drop_overlap and recipe.task is None:
            dropped = find_overlap(SplitItems(corpus.texts), drop=True).dropped
            corpus.dropped_training_rows = frozenset(dropped)
        return cls(recipe.name, corpus, recipe.task, corpus_fingerprint(corpus, recipe.task))

    def texts(self) -> Iterator[str]:
        """The texts, or the inputs of the rows, that it trained on."""
        if self.task is None:
            yield from self.corpus.texts("train")
        else:
            yield from map(self.task.identity_text, self.corpus.rows("train"))


@dataclass(frozen=True)
class EarlierTrainings:
    """All of them, the last one first."""

    trainings: Sequence[EarlierTraining] = ()
    unreadable: Sequence[str] = ()
    "What is said of those whose data cannot be read any more."

    @classmethod
    def before(cls, recipe: Recipe) -> EarlierTrainings:
        trainings, name = [], ""
        try:
            for earlier in _recipes_before(recipe):
                name = earlier.name
                trainings.append(EarlierTraining.of(earlier))
        except UserError as problem:
            said = (
                f"data: the training data of {name or recipe.init_from}, which the model starts "
                f"from, cannot be read ({problem.what}): whether dev or test stand in it is not "
                "known"
            )
            return cls(tuple(trainings), (said,))
        return cls(tuple(trainings))

    def facts(self) -> list[Any]:
        """What the overlap with them follows from."""
        return [*(one.source for one in self.trainings), *self.unreadable]

    def documents(self) -> Iterator[str]:
        """The texts of those that trained on texts."""
        return (text for one in self.trainings if one.task is None for text in one.texts())

    def flaws(self, splits: SplitItems) -> list[str]:
        """Items of dev and test that stand in their data word for word."""
        held_out = {split: [normalise(text) for text in splits.texts(split)] for split in HELD_OUT}
        measured = {text for texts in held_out.values() for text in texts if text}
        found: list[str] = []
        for one in self.trainings:
            trained = measured.intersection(map(normalise, one.texts()))
            counts = {
                split: SplitOverlap(items=len(texts), exact=sum(text in trained for text in texts))
                for split, texts in held_out.items()
            }
            found += _sentences(one.name, counts)
        return [*found, *self.unreadable]


def _recipes_before(recipe: Recipe) -> Iterator[Recipe]:
    while recipe.init_from is not None and not recipe.init_from.startswith(PIP_PREFIX):
        path = Path(recipe.init_from)
        if path.suffix != ".toml":
            path = run_around(path)
            if not (path / "recipe.toml").is_file():  # an imported model: nobody knows its data
                return
        recipe = Recipe.load(path)
        yield recipe


def _sentences(name: str, counts: Mapping[Split, SplitOverlap]) -> Iterator[str]:
    for split, found in counts.items():
        if found.is_contaminated:
            yield (
                f"data: {found.exact:,} of {found.items:,} in {split} stand word for word in the "
                f"training data of {name}, which the model starts from: give both the same "
                "data.split_seed, or test what neither was trained on"
            )
