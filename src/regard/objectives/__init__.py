"""Training objectives, one file each: how a document becomes inputs, targets and loss weights.

An objective is a pure function of (document, generator): the same two give the same example. It
also defines evaluation: which tokens of a document are scored, and given which context.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.batch import Example, Ints
from regard.core.catalog import Catalog
from regard.core.settings import Settings
from regard.data.chunks import Document
from regard.objectives.vocabulary import Vocabulary

__all__ = ["OBJECTIVES", "Objective", "ScoredExample", "Vocabulary"]

OBJECTIVES = Catalog("objective", home="regard.objectives")


class ScoredExample(NamedTuple):
    """An evaluation example, with the document's tokens that its loss is over."""

    example: Example
    token_indices: Ints
    "Index in the document (<stop> comes last) of each target with a weight above 0, in order."


class Objective(Settings, ABC):
    """Settings that turn a document into a training example."""

    model_settings: ClassVar[Mapping[str, Any]] = {}
    "Values that settings of the model must have: what the loss is computed by."

    @abstractmethod
    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example: ...

    @abstractmethod
    def evaluation_examples(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        """The examples that score a document (ids without <start> and <stop>)."""

    def evaluation_positions(self, tokens: Ints, *, context: int) -> int:
        """Approximate number of positions that pass through the model to score documents of
        these lengths in tokens."""
        return int((tokens + 2).sum())
