"""Learned position embeddings: a trainable vector for each position, as in GPT-2 and BERT.

p_t = row t of a (context × width) table                        Gehring et al., 2017
"""

from __future__ import annotations

from torch import nn

from regard.attention.positions import POSITIONS, AbsolutePositionKind


@POSITIONS.add("learned", reach="the context it was trained with", acts="on the embedding")
class Learned(AbsolutePositionKind):
    """A trainable embedding for each position up to the context."""

    def build_embedding(self, *, width: int, context: int) -> nn.Module:
        return nn.Embedding(context, width)

    def embedding_parameters(self, *, width: int, context: int) -> int:
        return context * width
