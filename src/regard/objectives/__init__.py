"""Every training objective, one file each: what of a document is given, and what is to be told.

An objective is a pure function of (document, generator): the same two give the same example. It
also says how documents are measured: which of their tokens are told, and from what.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from regard.batch import Example, Ints
from regard.core.catalog import Catalog
from regard.core.settings import Settings
from regard.data.chunks import Document
from regard.objectives.vocabulary import Vocabulary

__all__ = ["OBJECTIVES", "Objective", "Scored", "Vocabulary"]

OBJECTIVES = Catalog("objective", home="regard.objectives")


class ScoredExample(NamedTuple):
    """A row to measure."""

    example: Example
    tells: Ints
    "Which of the document's tokens (its stop the last) each target that counts is, in order."


class Objective(Settings, ABC):
    """Settings that turn a document into an example to learn from."""

    @abstractmethod
    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example: ...

    @abstractmethod
    def scored(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        """The rows by which a document (ids without <start> and <stop>) is measured."""

    def places_scored(self, tokens: Ints, *, context: int) -> int:
        """About how many places go through the model to measure documents of so many tokens."""
        return int((tokens + 2).sum())
