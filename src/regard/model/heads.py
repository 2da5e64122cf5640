"""Heads turn the vectors of a Transformer into answers.

Shapes: b batch, t place, w model width, v vocabulary.
"""

from __future__ import annotations

from torch import Tensor, nn


class LanguageModelHead(nn.Module):
    """Scores for every token of the vocabulary, (b,t,w) -> (b,t,v)."""

    def __init__(self, vocabulary: int, *, width: int) -> None:
        super().__init__()
        self.tokens = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.tokens(x)
        return y

    def tie(self, embedding: nn.Embedding) -> None:
        """Score with the very table that embeds the tokens (Press and Wolf, 2017)."""
        self.tokens.weight = embedding.weight
