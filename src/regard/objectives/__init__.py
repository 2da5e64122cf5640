"""Every training objective, one file each: what of a document is given, and what is to be told.

An objective is a pure function of (document, generator): the same two give the same example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from regard.catalog import Catalog
from regard.settings import Settings
from regard.text.batches import Example
from regard.text.rows import Document

OBJECTIVES = Catalog("objective", home="regard.objectives")


class Objective(Settings, ABC):
    """Settings that turn a document into an example to learn from."""

    @abstractmethod
    def example(self, document: Document, generator: np.random.Generator) -> Example: ...
