"""Tokens and their places as vectors, joined by adding or by concatenating them.

    add: x_t = e(token_t) + p_t        concatenate: x_t = [e(token_t); p_t]

Where rows hold several texts, which of them a token belongs to may be added as well, and the sum
may be normalised; BERT does both. Shapes: b batch, t place, w model width.
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
        texts: int = 0,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, token_width(width, positions))
        own = position_width(width, positions)
        self.positions = positions.build_vectors(width=own, context=context)
        self.combine = positions.combine if isinstance(positions, AbsolutePositionKind) else "add"
        self.texts = nn.Embedding(texts, width) if texts else None
        "One vector for each text of a row."
        self.norm = norm
        self.dropout = Dropout(dropout)

    def share_tokens(self, other: Embedding) -> None:
        """Embed tokens by the other's very table; positions stay its own."""
        self.tokens.weight = other.tokens.weight

    def forward(self, ids: Tensor, positions: Tensor, texts: Tensor | None = None) -> Tensor:
        """(b,t), (b or 1,t), (b,t) -> (b,t,w)"""
        return self.placed(self.tokens(ids), positions, texts)

    def placed(self, x: Tensor, positions: Tensor, texts: Tensor | None = None) -> Tensor:
        """(b,t,…), (b or 1,t), (b,t) -> (b,t,w): vectors joined with those of their places; where
        `texts` are not given, all belong to the first."""
        if self.positions is not None:
            vectors = self.positions(positions)
            if self.combine == "add":
                x = x + vectors
            else:
                x = torch.cat((x, vectors.expand(*x.shape[:-1], -1)), dim=-1)
        if self.texts is not None:
            x = x + (self.texts.weight[0] if texts is None else self.texts(texts))
        if self.norm is not None:
            x = self.norm(x)
        dropped: Tensor = self.dropout(x)
        return dropped


def position_width(width: int, positions: PositionKind) -> int:
    """How wide position vectors are, in a model of this width."""
    return positions.width_within(width) if isinstance(positions, AbsolutePositionKind) else width


def token_width(width: int, positions: PositionKind) -> int:
    """What concatenated positions leave of the width for the tokens."""
    beside = isinstance(positions, AbsolutePositionKind) and positions.combine == "concatenate"
    return width - position_width(width, positions) if beside else width
