"""An encoder: every place sees the whole row (Devlin et al., 2019)."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from regard.attention.kinds import ATTENTION
from regard.count import Term
from regard.model.encoder_model import EncoderModel
from regard.model.families import FAMILIES
from regard.model.initialise import initialise
from regard.model.transformer import Transformer
from regard.settings import name_of


@FAMILIES.add("encoder", predicts="hidden tokens", objectives=("masked",))
class Encoder(Transformer):
    """An encoder-only Transformer, as BERT is."""

    across_documents: bool = True
    "In packed rows, let documents see each other; false keeps them apart."

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
        )
        initialise(model, seed=seed, layers=self.layers)
        return model

    def count(self, vocabulary: int) -> list[Term]:
        return [
            *self.embedding_terms(vocabulary),
            *self.stack_terms(),
            *self.head_terms(vocabulary),
        ]
