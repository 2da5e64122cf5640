"""Batch loader: a resumable data loader whose order is a function of seed and epoch alone.

The only state is a cursor, the number of consumed batches: a resumed run recomputes the epoch's
plan and continues after the cursor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Protocol

import numpy as np

from regard.batch import Batch, Example, Ints, collate
from regard.core.errors import UserError
from regard.data.batching import BatchPlan, bucketed_batches, fixed_size_batches, padding_fraction
from regard.data.chunks import DocumentChunks, PackedBlocks
from regard.objectives import Objective, Vocabulary
from regard.training.settings import Train

POOL_BATCHES = 50
"Batches whose rows are sorted by length together; a larger pool pads less and shuffles less."
MAX_PLANNED_EPOCHS = 10_000
"Of bucketed batches, which are planned to be counted."


@dataclass(frozen=True)
class Cursor:
    """Progress through the data: completed epochs, and consumed batches of the current one."""

    epoch: int = 0
    batch: int = 0


class Examples(Protocol):
    """Training examples, built on demand."""

    @property
    def lengths(self) -> Ints:
        """Positions of each row."""

    def __len__(self) -> int: ...

    def example(self, row: int, generator: np.random.Generator) -> Example: ...


@dataclass(frozen=True, eq=False)
class ObjectiveExamples:
    """Rows of text, turned into examples by an objective."""

    rows: DocumentChunks | PackedBlocks
    objective: Objective
    vocabulary: Vocabulary

    @property
    def lengths(self) -> Ints:
        # A row has one token more than positions: every token but the first is a target.
        return self.rows.lengths - 1

    def __len__(self) -> int:
        return len(self.rows)

    def example(self, row: int, generator: np.random.Generator) -> Example:
        return self.objective.example(self.rows[row], generator, vocabulary=self.vocabulary)


class BatchLoader:
    """Batches of examples, reshuffled each epoch, from any cursor on."""

    def __init__(self, examples: Examples, settings: Train, *, pad: int) -> None:
        self.examples = examples
        self.settings = settings
        self.pad = pad

    @lru_cache(maxsize=2)  # noqa: B019 — of all loaders; a process has one or two
    def plan(self, epoch: int) -> BatchPlan:
        """The rows of each batch of an epoch."""
        settings, lengths = self.settings, self.examples.lengths
        if settings.batches == "bucketed":
            return bucketed_batches(
                lengths,
                budget=settings.batch_tokens,
                pool=POOL_BATCHES,
                seed=settings.seed,
                epoch=epoch,
            )
        return fixed_size_batches(
            len(lengths),
            rows=max(1, settings.batch_tokens // int(lengths.max())),
            seed=settings.seed,
            epoch=epoch,
        )

    def mean_positions(self) -> float:
        """Of a batch of the first epoch, padding included."""
        batches, lengths = self.plan(0), self.examples.lengths
        return sum(len(rows) * int(lengths[rows].max()) for rows in batches) / len(batches)

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole training."""
        epochs, max_steps = self.settings.epochs or 1, self.settings.max_steps
        if self.settings.epochs is None and max_steps is not None:
            return max_steps
        if self.settings.batches != "bucketed":  # every epoch has as many batches
            total = epochs * len(self.plan(0))
            return total if max_steps is None else min(total, max_steps)
        total = 0
        for epoch in range(epochs):
            total += len(self.plan(epoch))
            if max_steps is not None and total >= max_steps:
                return max_steps
            if epoch == MAX_PLANNED_EPOCHS:
                raise UserError(
                    f"train.epochs = {epochs:,} of bucketed batches, which differ in number, are "
                    "too many to count",
                    topic="recipe",
                    hint="Set train.max_steps instead.",
                )
        return total

    def batches_after(self, cursor: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        """Batches after the cursor, each with the cursor after it; endless."""
        for rows, after in self.plans_after(cursor):
            yield self.build_batch(rows, after.epoch), after

    def plans_after(self, cursor: Cursor) -> Iterator[tuple[Ints, Cursor]]:
        """The rows of these batches."""
        for epoch in count(cursor.epoch):
            plan = self.plan(epoch)
            first = cursor.batch if epoch == cursor.epoch else 0
            for index in range(first, len(plan)):
                yield plan[index], Cursor(epoch, index + 1)

    def build_batch(self, rows: Ints, epoch: int) -> Batch:
        """One batch; the random draws for a row are a function of (seed, epoch, row)."""
        examples = [
            self.examples.example(
                int(row), np.random.default_rng([self.settings.seed, epoch, int(row)])
            )
            for row in rows
        ]
        return collate(examples, pad_id=self.pad, rows=tuple(int(row) for row in rows))

    def remarks(self) -> list[str]:
        """Where the batches are not what the settings ask for."""
        budget, lengths = self.settings.batch_tokens, self.examples.lengths
        longest, positions = int(lengths.max()), len(lengths) * int(lengths.max())
        if budget < longest:
            return [
                f"train: train.batch_tokens = {budget:,} is less than one row, so each update "
                f"takes one row of up to {longest:,} positions"
            ]
        if positions < budget:
            return [
                f"train: train.batch_tokens = {budget:,}, but the training split has only "
                f"{len(lengths):,} row{'s' * (len(lengths) != 1)} of up to {longest:,} positions, "
                "so each update takes all of them"
            ]
        return []

    def order_fingerprint(self) -> str:
        """Equal for two trainings exactly if they see the same rows in the same order."""
        digest = hashlib.sha256(str(self.settings.seed).encode())
        for array in (self.examples.lengths, *self.plan(0)):
            digest.update(array.tobytes())
        return digest.hexdigest()[:16]

    def padding_waste(self) -> float:
        """Fraction of the first epoch's positions that are padding."""
        return padding_fraction(self.examples.lengths, self.plan(0))
