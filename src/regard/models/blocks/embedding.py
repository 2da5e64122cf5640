"""The embedding layer: token and position embeddings, added or concatenated.

    add: x_t = e(token_t) + p_t        concatenate: x_t = [e(token_t); p_t]

Segment embeddings (token type embeddings) and a norm are optional; BERT has both.
Shapes: b batch, t position, w model width (hidden size).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.positions import AbsolutePositionKind, PositionKind
from regard.nn.dropout import Dropout


class Embedding(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        *,
        width: int,
        context: int,
        positions: PositionKind,
        dropout: float,
        segments: int = 0,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, token_width(width, positions))
        self.positions = positions.build_embedding(
            width=position_width(width, positions), context=context
        )
        self.combine = positions.combine if isinstance(positions, AbsolutePositionKind) else "add"
        self.segments = nn.Embedding(segments, width) if segments else None
        self.norm = norm
        self.dropout = Dropout(dropout)

    def tie_tokens(self, other: Embedding) -> None:
        """Use the token table of the other embedding; position embeddings stay separate."""
        self.tokens.weight = other.tokens.weight

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        """(b,t), (b or 1,t), (b,t) -> (b,t,w)"""
        return self.combine_positions(self.tokens(ids), positions, segments)

    def combine_positions(
        self, x: Tensor, positions: Tensor, segments: Tensor | None = None
    ) -> Tensor:
        """(b,t,…), (b or 1,t), (b,t) -> (b,t,w): token embeddings with their position and segment
        embeddings; without `segments` every token is in segment 0."""
        if self.positions is not None:
            embedded = self.positions(positions)
            if self.combine == "add":
                x = x + embedded
            else:
                x = torch.cat((x, embedded.expand(*x.shape[:-1], -1)), dim=-1)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        if self.norm is not None:
            x = self.norm(x)
        y: Tensor = self.dropout(x)
        return y


def position_width(width: int, positions: PositionKind) -> int:
    """Width of the position embeddings in a model of this width."""
    return (
        positions.embedding_width(width) if isinstance(positions, AbsolutePositionKind) else width
    )


def token_width(width: int, positions: PositionKind) -> int:
    """Width of the token embeddings: what concatenated position embeddings leave."""
    concatenated = (
        isinstance(positions, AbsolutePositionKind) and positions.combine == "concatenate"
    )
    return width - position_width(width, positions) if concatenated else width
