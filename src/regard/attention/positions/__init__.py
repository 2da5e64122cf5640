"""Every way to tell a model where a token stands, one file each.

Absolute positions are vectors that join the token vectors: added, or put beside them in places of
the width kept for them. Relative ones act inside each attention, on pairs of places: they turn
queries and keys, or add a bias to the scores. Shapes: b batch, h heads, i query, j key, d head
width.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from regard.attention.function import HeadShape
from regard.attention.kinds import RelationSort
from regard.core.catalog import Catalog
from regard.core.settings import Settings

POSITIONS = Catalog("position", home="regard.attention.positions")


class RelativePosition(nn.Module):
    """What a relative position does inside one attention; each kind overrides one of the two."""

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (b,h,i,d), turned by where they stand, (b or 1,i)."""
        return x

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Positions (b or 1,i), (b or 1,j) -> (b or 1,h,i,j), added to the scores."""
        return None


class PositionKind(Settings):
    """Settings of a position kind; none of the hooks means that order goes unseen."""

    def build_vectors(self, *, width: int, context: int) -> nn.Module | None:
        """A module from positions (b,t) to vectors (b,t,width)."""
        return None

    def build_relation(self, shape: HeadShape) -> RelativePosition | None:
        """A new one for each attention."""
        return None

    @property
    def relation_sort(self) -> RelationSort | None:
        """What `build_relation` gives, for kinds of attention that can take only one sort."""
        return None

    def vector_parameters(self, *, width: int, context: int) -> int:
        """How many parameters `build_vectors` makes."""
        return 0

    @property
    def relation_formula(self) -> str:
        """`relation_parameters` in letters: h heads, T context."""
        return "its own"

    def relation_parameters(self, shape: HeadShape) -> int:
        """How many parameters each `build_relation` makes."""
        return 0


class AbsolutePositionKind(PositionKind):
    """What all absolute positions share: the way they join the tokens."""

    combine: Literal["add", "concatenate"] = "add"
    "Join positions and tokens by adding the vectors or by putting them side by side."
    own_width: int = Field(default=0, ge=0)
    "Places of the model's width that concatenated positions take; 0 takes about a quarter."

    def width_within(self, model_width: int) -> int:
        """How wide the position vectors are."""
        if self.combine == "add":
            return model_width
        return self.own_width or self.usual_width(model_width)

    def usual_width(self, model_width: int) -> int:
        """How wide concatenated positions are where nobody says."""
        return max(1, model_width // 4)

    @abstractmethod
    def build_vectors(self, *, width: int, context: int) -> nn.Module: ...
