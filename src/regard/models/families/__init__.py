"""Every family of models, one file each. A family's settings build its model."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pydantic import Field

from regard.core.catalog import Catalog
from regard.core.count import Term
from regard.core.settings import Settings
from regard.models.model import Model

FAMILIES = Catalog("family", home="regard.models.families")


class Family(Settings, ABC):
    """Settings from which a model is built; its starting values follow from the seed."""

    context: int = Field(default=100, ge=2)
    "Places the model sees at once, in tokens."

    @abstractmethod
    def build(self, *, vocabulary: int, seed: int) -> Model: ...

    @abstractmethod
    def count(self, vocabulary: int) -> list[Term]:
        """The parameters of each part by formula; their sum is what `build` makes."""
