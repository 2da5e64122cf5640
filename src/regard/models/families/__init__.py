"""Model families, one file each: settings that build a model and count its parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pydantic import Field

from regard.core.catalog import Catalog
from regard.core.parameter_count import ParameterCount
from regard.core.settings import Settings
from regard.models.model import Model

FAMILIES = Catalog("family", home="regard.models.families")


class Family(Settings, ABC):
    """Settings that build a model; the seed decides its initial weights."""

    context: int = Field(default=100, ge=2)
    "Context length: the maximum sequence length in tokens."

    @abstractmethod
    def build(self, *, vocabulary: int, seed: int) -> Model: ...

    @abstractmethod
    def count_parameters(self, vocabulary: int) -> list[ParameterCount]:
        """Parameters of each module by formula; their sum equals the count of the built model."""
