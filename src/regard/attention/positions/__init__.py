"""Every way to tell a model where a token stands, one file each.

A position's settings build a module that turns places (b,t) into vectors (b,t,width); `combine`
says how they join the token vectors: added, or concatenated in places of the width kept for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from pydantic import Field
from torch import nn

from regard.catalog import Catalog
from regard.settings import Settings

POSITIONS = Catalog("position", home="regard.attention.positions")


class AbsolutePositions(Settings, ABC):
    """What all absolute positions share: the way they join the tokens."""

    combine: Literal["add", "concatenate"] = "add"
    "Join positions and tokens by adding the vectors or by putting them side by side."
    own_width: int = Field(default=0, ge=0)
    "Places of the model's width that concatenated positions take; 0 takes a quarter."

    def width_within(self, model_width: int) -> int:
        """How wide the position vectors are."""
        return model_width if self.combine == "add" else self.own_width or model_width // 4

    @abstractmethod
    def build(self, *, width: int, context: int) -> nn.Module: ...
