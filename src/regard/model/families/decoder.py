"""A decoder: each place sees its past and predicts the next token (Radford et al., 2018)."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, SerializeAsAny, model_validator
from torch import nn

from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.kinds.dot import Dot
from regard.attention.mixer import MultiHeadAttention
from regard.attention.positions import POSITIONS, AbsolutePositions
from regard.attention.positions.learned import Learned
from regard.attention.rule import HeadShape
from regard.model.embedding import Embedding
from regard.model.families import FAMILIES, Family
from regard.model.heads import LanguageModelHead
from regard.model.initialise import initialise
from regard.model.language_model import LanguageModel
from regard.model.layers import Block, FeedForward, NormPlace
from regard.settings import Named


@FAMILIES.add("decoder", predicts="the next token")
class Decoder(Family):
    """A decoder-only Transformer, as GPT is."""

    layers: int = Field(default=3, ge=1)
    "Blocks, one after the other."
    heads: int = Field(default=3, ge=1)
    "Attention heads in each block; they share the width between them."
    width: int = Field(default=48, ge=1)
    "Length of the vector that stands for a place."
    feed_forward: int = Field(default=0, ge=0)
    "Hidden width of the feed-forward network; 0 takes four times the width."
    attention: Annotated[SerializeAsAny[AttentionKind], Named(ATTENTION)] = Dot()
    "The kind of attention."
    positions: Annotated[SerializeAsAny[AbsolutePositions], Named(POSITIONS)] = Learned()
    "How the model knows where a token stands."
    norm: NormPlace = "pre"
    "Normalise before each part of a block (pre) or after it (post)."
    tied: bool = True
    "Score tokens with the table that embeds them."
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    "Share of activations dropped in training: attention weights, residuals and embeddings."
    across_documents: bool = True
    "In packed rows, let a document see the one before it; false keeps them apart."

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.width % self.heads:
            raise ValueError(
                f"heads = {self.heads} does not divide width = {self.width}; "
                f"the nearest width that fits is {-(-self.width // self.heads) * self.heads}"
            )
        if self.tied and self.positions.combine == "concatenate":
            raise ValueError(
                'tied = true needs positions.combine = "add": concatenated positions leave the '
                "token table narrower than the model; set tied = false"
            )
        beside = self.positions.combine == "concatenate"
        if beside and self.positions.width_within(self.width) >= self.width:
            raise ValueError(
                f"positions.own_width = {self.positions.own_width} leaves no room for tokens "
                f"in width = {self.width}"
            )
        return self

    def build(self, *, vocabulary: int, seed: int) -> LanguageModel:
        shape = HeadShape(width=self.width // self.heads, heads=self.heads)
        embedding = Embedding(
            vocabulary,
            width=self.width,
            context=self.context,
            positions=self.positions,
            dropout=self.dropout,
        )
        head = LanguageModelHead(vocabulary, width=self.width)
        if self.tied:
            head.tie(embedding.tokens)
        model = LanguageModel(
            embedding,
            [self._block(shape) for _ in range(self.layers)],
            head,
            norm=nn.LayerNorm(self.width) if self.norm == "pre" else nn.Identity(),
            context=self.context,
            across_documents=self.across_documents,
        )
        initialise(model, seed=seed, layers=self.layers)
        return model

    def _block(self, shape: HeadShape) -> Block:
        return Block(
            MultiHeadAttention(self.attention.build(shape), shape, dropout=self.dropout),
            FeedForward(self.width, hidden=self.feed_forward or 4 * self.width),
            width=self.width,
            norm_place=self.norm,
            dropout=self.dropout,
        )
