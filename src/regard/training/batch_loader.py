"""The batches of a training, in an order that is a function of seed and epoch alone.

Nothing about the order has to be remembered but how many batches were consumed: a resumed run
plans the epoch again and goes on behind that cursor.
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
from regard.data.batching import Plan, bucketed, fixed, waste
from regard.data.chunks import DocumentChunks, PackedBlocks
from regard.objectives import Objective, Vocabulary
from regard.training.settings import Train

POOL_BATCHES = 50
"Batches whose rows are sorted by length together; more waste less and shuffle less."


@dataclass(frozen=True)
class Cursor:
    """How far a training has read: whole epochs, and batches of the current one."""

    epoch: int = 0
    batch: int = 0


class Examples(Protocol):
    """Rows to learn from, made on demand."""

    @property
    def lengths(self) -> Ints:
        """Places that each row takes."""

    def __len__(self) -> int: ...

    def example(self, row: int, generator: np.random.Generator) -> Example: ...


@dataclass(frozen=True, eq=False)
class ObjectiveExamples:
    """Rows of text, as an objective turns them into examples."""

    rows: DocumentChunks | PackedBlocks
    objective: Objective
    vocabulary: Vocabulary

    @property
    def lengths(self) -> Ints:
        # A row has one token more than places: every token but the first is a target.
        return self.rows.lengths - 1

    def __len__(self) -> int:
        return len(self.rows)

    def example(self, row: int, generator: np.random.Generator) -> Example:
        return self.objective.example(self.rows[row], generator, vocabulary=self.vocabulary)


class BatchLoader:
    def __init__(self, examples: Examples, settings: Train, *, pad: int) -> None:
        self.examples = examples
        self.settings = settings
        self.pad = pad

    def plan(self, epoch: int) -> Plan:
        return _plan(self, epoch)

    @property
    def steps(self) -> int:
        """Updates in the whole training."""
        epochs, most = self.settings.epochs, self.settings.max_steps
        if epochs is None and most is not None:
            return most
        total = sum(len(self.plan(epoch)) for epoch in range(epochs or 1))
        return total if most is None else min(total, most)

    def after(self, cursor: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        """Batches behind the cursor, each with the cursor that stands behind it; no end."""
        for epoch in count(cursor.epoch):
            plan = self.plan(epoch)
            first = cursor.batch if epoch == cursor.epoch else 0
            for number in range(first, len(plan)):
                yield self.batch(plan[number], epoch), Cursor(epoch, number + 1)

    def batch(self, rows: Ints, epoch: int) -> Batch:
        """One batch; each row's objective draws from (seed, epoch, row), whoever asks."""
        examples = [
            self.examples.example(
                int(row), np.random.default_rng([self.settings.seed, epoch, int(row)])
            )
            for row in rows
        ]
        return collate(examples, pad_id=self.pad, rows=tuple(int(row) for row in rows))

    def order(self) -> str:
        """The same for two trainings exactly if they read the same rows in the same order."""
        facts = [self.examples.lengths.tobytes(), *(rows.tobytes() for rows in self.plan(0))]
        digest = hashlib.sha256(str(self.settings.seed).encode())
        for fact in facts:
            digest.update(fact)
        return digest.hexdigest()[:16]

    def padding_waste(self) -> float:
        """Share of the first epoch's places that hold no token."""
        return waste(self.examples.lengths, self.plan(0))


@lru_cache(maxsize=2)
def _plan(stream: BatchLoader, epoch: int) -> Plan:
    settings, lengths = stream.settings, stream.examples.lengths
    if settings.batches == "bucketed":
        return bucketed(
            lengths,
            budget=settings.batch_tokens,
            pool=POOL_BATCHES,
            seed=settings.seed,
            epoch=epoch,
        )
    return fixed(
        len(lengths),
        rows=max(1, settings.batch_tokens // int(lengths.max())),
        seed=settings.seed,
        epoch=epoch,
    )
