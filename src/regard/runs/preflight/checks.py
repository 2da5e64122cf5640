"""The pre-flight: checks between the data and the model, before anything is built or trained.

What cannot work is refused; where only one cure makes sense, it was applied and is said, as is what
makes a result unlikely. The remarks are shown before training and stand in the run's results.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from regard.data.corpus import Split
from regard.evaluation.formatting import quantity
from regard.evaluation.statistics.baseline_verdict import too_few_items
from regard.runs.preflight.memory import check_memory
from regard.runs.preflight.rank_remarks import rank_remarks
from regard.runs.preparation.prepared import PreparedData
from regard.runs.recipe import Recipe
from regard.runs.results import JUDGED_SPLITS
from regard.training.batch_loader import BatchLoader
from regard.training.compiled import COMPILED_REMARK
from regard.training.parallel.ranks import ONE_RANK, OneRank
from regard.training.settings import Train

MAX_LR = 1.0
"Above it AdamW, whose steps have about the length of the learning rate, hardly ever learns."


def check_before_data(recipe: Recipe, *, ranks: OneRank = ONE_RANK) -> None:
    """Refuse what the settings alone rule out, whatever the text."""
    smallest_vocabulary = 1
    check_memory(recipe, vocabulary=smallest_vocabulary, ranks=ranks)


def preflight(
    recipe: Recipe,
    prepared: PreparedData,
    loader: BatchLoader,
    *,
    vocabulary: int,
    ranks: OneRank = ONE_RANK,
) -> list[str]:
    """Remarks on how the settings fit the data and the machine; refuses what does not fit."""
    positions = _micro_batch_positions(loader)
    return [
        *check_memory(recipe, vocabulary=vocabulary, positions=positions, ranks=ranks),
        *(recipe.tokenizer.remarks(prepared.tokenizer) if recipe.init_from is None else ()),
        *loader.remarks(),
        *_training_remarks(recipe.train, loader.steps),
        *rank_remarks(recipe, loader, ranks),
    ]


def _micro_batch_positions(loader: BatchLoader) -> int:
    """Of the largest micro-batch of the first epoch, padding included."""
    lengths = np.asarray(loader.examples.lengths)
    largest = max(len(rows) * int(lengths[rows].max()) for rows in loader.plan(0))
    return largest // loader.settings.accumulate


def _training_remarks(train: Train, steps: int) -> Iterator[str]:
    if train.compile:
        yield COMPILED_REMARK
    if train.lr > MAX_LR and steps:
        yield (
            f"train: train.lr = {train.lr:g} is far above the 1e-5 to 1e-2 with which AdamW "
            "learns: expect the loss to diverge"
        )
    if train.patience and train.evaluate_every > steps:
        yield (
            f"train: train.patience = {train.patience} never acts: the training has "
            f"{quantity(steps, 'steps')} and train.evaluate_every = {train.evaluate_every}"
        )


def small_splits(prepared: PreparedData) -> Iterator[str]:
    """Splits without a verdict; the results say so beside their scores."""
    for name in JUDGED_SPLITS:
        items = "documents" if prepared.recipe.task is None else "rows"
        scored = prepared.scored_items(name)
        if few := too_few_items(scored.items, items, groups=scored.groups):
            yield f"{name}: {few}; {_larger(prepared, name, items)}"


def _larger(prepared: PreparedData, split: Split, items: str) -> str:
    fractions, splits = prepared.recipe.data.fractions, prepared.statistics.splits
    if split not in fractions:
        return f"give data.{split} more"
    total = sum(one.documents for one in splits.values())
    now = f"{splits[split].documents:,} of {total:,} {items}"
    return f"raise data.{split}, which is {fractions[split]:g} and gives {now}, or give more"
