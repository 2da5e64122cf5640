"""An encoder: every place sees the whole row (Devlin et al., 2019)."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from regard.attention.kinds import ATTENTION
from regard.core.count import Term
from regard.core.settings import name_of
from regard.models.architectures.encoder_model import EncoderModel
from regard.models.blocks.embedding import Embedding, token_width
from regard.models.families import FAMILIES
from regard.models.families.transformer import Transformer
from regard.models.heads.heads import HeadTransform, Pooler
from regard.models.heads.patches import patch_term
from regard.models.heads.span_boundary import SpanBoundary, boundary_term
from regard.models.task_models.patch_model import PatchEncoder


@FAMILIES.add("encoder", predicts="hidden tokens", objectives=("masked", "spanbert"))
class Encoder(Transformer):
    """An encoder-only Transformer, as BERT is."""

    across_documents: bool = True
    "In packed rows, let documents see each other; false keeps them apart."
    boundary: bool = False
    "A network that tells hidden spans from their two ends, which objective = spanbert trains."

    texts: int = Field(default=0, ge=0)
    "Texts of a row that have a vector of their own (BERT: 2); 0: only [SEP] tells them apart."
    embedding_norm: bool = False
    "Normalise what is embedded before the first block, as BERT does."
    output_network: bool = False
    "A linear layer, gelu and norm before the output layer, and a bias in it, as BERT has."
    pooler: bool = False
    "A linear layer and tanh between the first place and a head, as BERT has."
    patch_values: int = Field(default=0, ge=0)
    "Numbers in each patch of an image that stands behind the words; 0: rows hold words alone."

    @model_validator(mode="after")
    def _keeps_apart(self) -> Self:
        if not (self.across_documents or self.attention.traits.follows("same-document")):
            raise ValueError(
                f"attention {name_of(self.attention, ATTENTION)} cannot keep documents apart: "
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
            texts=self.texts,
            norm=self.build_norm() if self.embedding_norm else None,
        )

    def build_output_network(self) -> HeadTransform | None:
        if not self.output_network:
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
        if self.patch_values:
            model = PatchEncoder(model, patch_values=self.patch_values)
        self.start(model, seed=seed)
        return model

    def count(self, vocabulary: int) -> list[Term]:
        return [
            *self.embedding_terms(vocabulary),
            *self.stack_terms(),
            *self.head_terms(vocabulary),
            *self._terms_of_its_own(vocabulary),
        ]

    def _terms_of_its_own(self, vocabulary: int) -> list[Term]:
        w = self.width
        letters, size = ("2w", 2 * w) if self.norm == "layer" and self.biases else ("w", w)
        embedding_width = token_width(w, self.positions)
        terms = {
            "texts": Term("texts of a row", f"{self.texts}·w", self.texts * w),
            "embedding_norm": Term("embedding norm", letters, size),
            "output_network": Term(
                "output network", f"w·w + w + {letters} + v", w * w + w + size + vocabulary
            ),
            "pooler": Term("pooler", "w·w + w", w * w + w),
            "boundary": boundary_term(w),
            "patch_values": patch_term(self.patch_values, embedding_width),
        }
        return [term for setting, term in terms.items() if getattr(self, setting)]
