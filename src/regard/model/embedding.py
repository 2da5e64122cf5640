"""Tokens and their places as vectors, joined by adding or by concatenating them.

    add: x_t = e(token_t) + p_t        concatenate: x_t = [e(token_t); p_t]

Shapes: b batch, t place, w model width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.positions import AbsolutePositions


class Embedding(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        *,
        width: int,
        context: int,
        positions: AbsolutePositions,
        dropout: float,
    ) -> None:
        super().__init__()
        position_width = positions.width_within(width)
        self.combine = positions.combine
        self.token_width = width if self.combine == "add" else width - position_width
        self.tokens = nn.Embedding(vocabulary, self.token_width)
        self.positions = positions.build(width=position_width, context=context)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor, places: Tensor) -> Tensor:
        """(b,t), (b,t) or (t,) -> (b,t,w)"""
        tokens, positions = self.tokens(ids), self.positions(places)
        if self.combine == "add":
            x = tokens + positions
        else:
            x = torch.cat((tokens, positions.expand(*tokens.shape[:-1], -1)), dim=-1)
        dropped: Tensor = self.dropout(x)
        return dropped
