"""An encoder: every place sees the whole row (Devlin et al., 2019)."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from regard.attention.kinds import ATTENTION
from regard.count import Term
from regard.model.boundary import SpanBoundary, boundary_term
from regard.model.embedding import token_width
from regard.model.encoder_model import EncoderModel
from regard.model.families import FAMILIES
from regard.model.patch_model import PatchReader
from regard.model.patches import patch_term
from regard.model.transformer import Transformer
from regard.settings import name_of


@FAMILIES.add("encoder", predicts="hidden tokens", objectives=("masked", "spanbert"))
class Encoder(Transformer):
    """An encoder-only Transformer, as BERT is."""

    across_documents: bool = True
    "In packed rows, let documents see each other; false keeps them apart."
    boundary: bool = False
    "A network that tells hidden spans from their two ends, which objective = spanbert trains."

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

    def build(self, *, vocabulary: int, seed: int) -> EncoderModel:
        embedding = self.build_embedding(vocabulary)
        model = EncoderModel(
            embedding,
            self.build_stack(),
            self.build_head(embedding),
            context=self.context,
            across_documents=self.across_documents,
            boundary=SpanBoundary(self.width) if self.boundary else None,
        )
        if self.patch_values:
            model = PatchReader(model, patch_values=self.patch_values)
        self.start(model, seed=seed)
        return model

    def count(self, vocabulary: int) -> list[Term]:
        return [
            *self.embedding_terms(vocabulary),
            *self.stack_terms(),
            *self.head_terms(vocabulary),
            *([boundary_term(self.width)] if self.boundary else []),
            *(
                [patch_term(self.patch_values, token_width(self.width, self.positions))]
                if self.patch_values
                else []
            ),
        ]
