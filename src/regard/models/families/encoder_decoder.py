"""An encoder-decoder: read a source whole, write a target from it (Vaswani et al., 2017)."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import SerializeAsAny, model_validator

from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.kinds.dot import Dot
from regard.core.count import Term
from regard.core.settings import CatalogField, name_of
from regard.models.architectures.encoder_decoder_model import EncoderDecoderModel
from regard.models.families import FAMILIES
from regard.models.families.transformer import Transformer


@FAMILIES.add("encoder-decoder", predicts="a target from a source", objectives=("prefix", "spans"))
class EncoderDecoder(Transformer):
    """A Transformer that reads a source and writes a target; `layers` blocks on each side."""

    cross_attention: Annotated[SerializeAsAny[AttentionKind], CatalogField(ATTENTION)] = Dot()
    "The kind of attention by which the target looks at the source."

    @model_validator(mode="after")
    def _sides_fit(self) -> Self:
        own, name = self.attention.traits, name_of(self.attention, ATTENTION)
        if not own.follows("causal"):
            raise ValueError(f"attention {name} cannot be kept from seeing the future")
        if not own.cacheable:
            raise ValueError(
                f"attention {name} cannot be read token by token, as a target is written: "
                "choose a cacheable kind (regard ls attention)"
            )
        across, name = self.cross_attention.traits, name_of(self.cross_attention, ATTENTION)
        if not across.cross:
            raise ValueError(
                f"cross_attention = {name} stays within one sequence: choose another, such as dot"
            )
        if self.projections not in across.projections:
            raise ValueError(f"cross_attention = {name} cannot have {self.projections}")
        return self

    def build(self, *, vocabulary: int, seed: int) -> EncoderDecoderModel:
        embedding = self.build_embedding(vocabulary)
        model = EncoderDecoderModel(
            self.build_embedding(vocabulary),
            embedding,
            self.build_stack(),
            self.build_stack(cross_attention=self.cross_attention),
            self.build_head(embedding),
            context=self.context,
        )
        self.start(model, seed=seed)
        return model

    def count(self, vocabulary: int) -> list[Term]:
        written = self.stack_terms(cross_attention=self.cross_attention)
        tokens, *positions = self.embedding_terms(vocabulary)
        return [
            tokens,
            *(term.on("encoder") for term in positions),
            *(term.on("decoder") for term in positions),
            *(term.on("encoder") for term in self.stack_terms()),
            *(term.on("decoder") for term in written),
            *self.head_terms(vocabulary),
        ]
