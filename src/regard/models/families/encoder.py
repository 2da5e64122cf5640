"""Encoder-only Transformer: bidirectional self-attention (Devlin et al., 2019)."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from regard.attention.kinds import ATTENTION
from regard.core.ledger import ParameterCount
from regard.core.settings import catalog_name
from regard.models.architectures.encoder_model import EncoderModel
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.patch_embedding import patch_embedding_parameters
from regard.models.families import FAMILIES
from regard.models.families.attention_shape import LinearShape
from regard.models.families.transformer import Transformer
from regard.models.heads.language_model_head import HeadTransform
from regard.models.heads.span_boundary import SpanBoundary, span_boundary_parameters
from regard.models.heads.task_heads import Pooler
from regard.models.task_models.patch_model import PatchEncoder


@FAMILIES.add("encoder", predicts="masked tokens", objectives=("masked", "spanbert"))
class Encoder(Transformer):
    """An encoder-only Transformer, as BERT."""

    across_documents: bool = True
    "In packed rows, let documents attend to each other; false keeps them apart."
    boundary: bool = False
    "A network that predicts masked spans from their boundaries, trained by objective = spanbert."
    segments: int = Field(default=0, ge=0)
    "Segment (token type) embeddings for the texts of a row (BERT: 2); 0: none, only [SEP]."
    embedding_norm: bool = False
    "A norm after the embedding layer, as in BERT."
    head_transform: bool = False
    "A linear layer, gelu and norm before the output layer, which has a bias, as in BERT."
    pooler: bool = False
    "A linear layer and tanh between the first position and a task head, as in BERT."
    patch_dim: int = Field(default=0, ge=0)
    "Values per image patch, for rows with patches after the words; 0: rows hold words alone."

    @model_validator(mode="after")
    def _check_masks(self) -> Self:
        if not (self.across_documents or self.attention.traits.supports_mask("same-document")):
            raise ValueError(
                f"attention {catalog_name(self.attention, ATTENTION)} cannot keep documents apart: "
                "set across_documents = true"
            )
        return self

    def build_embedding(self, vocabulary: int) -> Embedding:
        return Embedding(
            vocabulary,
            width=self.width,
            context=self.context,
            positions=self.positions,
            dropout=self.dropout,
            segments=self.segments,
            norm=self.build_norm() if self.embedding_norm else None,
        )

    def build_head_transform(self) -> HeadTransform | None:
        if not self.head_transform:
            return None
        return HeadTransform(self.width, norm=self.build_norm())

    def build(self, *, vocabulary: int, seed: int) -> EncoderModel:
        embedding = self.build_embedding(vocabulary)
        model = EncoderModel(
            embedding,
            self.build_stack(),
            self.build_head(embedding),
            context=self.context,
            across_documents=self.across_documents,
            boundary=SpanBoundary(self.width) if self.boundary else None,
            pooler=Pooler(self.width) if self.pooler else None,
        )
        if self.patch_dim:
            model = PatchEncoder(model, patch_dim=self.patch_dim)
        self.init_weights(model, seed=seed)
        return model

    def count_parameters(self, vocabulary: int) -> list[ParameterCount]:
        return [
            *self.count_embedding_parameters(vocabulary),
            *self.count_stack_parameters(),
            *self.count_head_parameters(vocabulary),
            *self._count_encoder_parameters(vocabulary),
        ]

    def linear_layers(self) -> dict[str, LinearShape]:
        layers = super().linear_layers()
        if self.patch_dim:
            layers["patches.values"] = LinearShape(self.patch_dim, self.token_width)
        return layers

    def count_biases(self) -> list[ParameterCount]:
        counts = []
        if self.embedding_norm and self.norms_have_biases:
            counts.append(ParameterCount("embedding norm", "w", self.width))
        if self.patch_dim:
            symbol = self.size_symbol(self.token_width)
            counts.append(ParameterCount("patch embedding", symbol, self.token_width))
        return counts + super().count_biases()

    def _count_encoder_parameters(self, vocabulary: int) -> list[ParameterCount]:
        w = self.width
        letters, size = ("2w", 2 * w) if self.norms_have_biases else ("w", w)
        counts = {
            "segments": ParameterCount(
                "segment embedding", f"{self.segments}·w", self.segments * w
            ),
            "embedding_norm": ParameterCount("embedding norm", letters, size),
            "head_transform": ParameterCount(
                "head transform", f"w·w + w + {letters} + v", w * w + w + size + vocabulary
            ),
            "pooler": ParameterCount("pooler", "w·w + w", w * w + w),
            "boundary": span_boundary_parameters(w),
            "patch_dim": patch_embedding_parameters(self.patch_dim, self.token_width),
        }
        return [count for setting, count in counts.items() if getattr(self, setting)]
