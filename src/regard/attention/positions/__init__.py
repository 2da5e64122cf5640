"""Position encodings, one file each: learned, sinusoidal, rotary (RoPE), ALiBi, relative, none.

Absolute positions are embeddings that are added to the token embeddings, or concatenated to them.
Relative positions act inside each attention, on pairs of positions: they rotate queries and keys,
or add a bias to the scores. Shapes: b batch, h heads, i query, j key, t position, d head width.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from regard.attention.function import HeadShape
from regard.attention.kinds import RelativeType
from regard.core.catalog import Catalog
from regard.core.settings import Settings

POSITIONS = Catalog("position", home="regard.attention.positions")


class RelativePosition(nn.Module):
    """A relative position inside one attention; each kind overrides one of the two methods."""

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (b,h,i,d), rotated by their positions (b or 1,i)."""
        return x

    max_length: int | None = None
    "Maximum number of positions of a row that it is defined for; None: any."

    def check_length(self, queries: Tensor, keys: Tensor) -> None:
        """Refuse positions (b or 1,i), (b or 1,j) that it is not defined for; reads them."""

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Positions (b or 1,i), (b or 1,j) -> (b or 1,h,i,j), added to the scores."""
        return None


class PositionKind(Settings):
    """Settings of a position kind; one that overrides nothing gives the model no positions."""

    relative_type: ClassVar[RelativeType | None] = None
    "The type of `build_relative_position`, for kinds of attention that support only one."

    def build_embedding(self, *, width: int, context: int) -> nn.Module | None:
        """A module from positions (b,t) to position embeddings (b,t,width)."""
        return None

    def build_relative_position(self, shape: HeadShape) -> RelativePosition | None:
        """A new one for each attention."""
        return None

    def embedding_parameters(self, *, width: int, context: int) -> int:
        """Number of parameters of `build_embedding`."""
        return 0

    def embedding_buffer(self, *, width: int, context: int) -> int:
        """Values of float32 that it takes to compute what of it is not trained."""
        return 0

    @property
    def relative_formula(self) -> str:
        """`relative_parameters` as a formula: h heads, T context."""
        return "its own"

    def relative_parameters(self, shape: HeadShape) -> int:
        """Number of parameters of one `build_relative_position`."""
        return 0


class AbsolutePositionKind(PositionKind):
    """Settings of absolute positions: how they are combined with the token embeddings."""

    combine: Literal["add", "concatenate"] = "add"
    "Add position embeddings to the token embeddings, or concatenate them."
    position_width: int = Field(default=0, ge=0)
    "Width of concatenated position embeddings, within the model's width; 0 takes about a quarter."

    def embedding_width(self, model_width: int) -> int:
        """Width of the position embeddings."""
        if self.combine == "add":
            return model_width
        return self.position_width or self.default_width(model_width)

    def default_width(self, model_width: int) -> int:
        """Width of concatenated positions if `position_width` is 0."""
        return max(1, model_width // 4)

    @abstractmethod
    def build_embedding(self, *, width: int, context: int) -> nn.Module: ...
