"""Encoder-decoder Transformer for sequence-to-sequence tasks (Vaswani et al., 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

from pydantic import SerializeAsAny, model_validator

from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.kinds.dot import Dot
from regard.core.ledger import ParameterCount
from regard.core.settings import CatalogField, catalog_name
from regard.models.architectures.encoder_decoder_model import EncoderDecoderModel
from regard.models.families import FAMILIES
from regard.models.families.attention_shape import AttentionShape
from regard.models.families.transformer import Transformer


@FAMILIES.add("encoder-decoder", predicts="a target from a source", objectives=("prefix", "spans"))
class EncoderDecoder(Transformer):
    """An encoder for the source and a decoder for the target; `layers` blocks on each side."""

    cross_attention: Annotated[SerializeAsAny[AttentionKind], CatalogField(ATTENTION)] = Dot()
    "The kind of attention from the decoder to the encoder's output."

    @model_validator(mode="after")
    def _check_attention_kinds(self) -> Self:
        traits, name = self.attention.traits, catalog_name(self.attention, ATTENTION)
        if not traits.supports_mask("causal"):
            raise ValueError(f"attention {name} cannot be made causal")
        if not traits.cacheable:
            raise ValueError(
                f"attention {name} has no cache to decode with: "
                "choose a cacheable kind (regard ls attention)"
            )
        cross_traits, name = (
            self.cross_attention.traits,
            catalog_name(self.cross_attention, ATTENTION),
        )
        if not cross_traits.cross:
            raise ValueError(
                f"cross_attention = {name} stays within one sequence: choose another, such as dot"
            )
        if self.projections not in cross_traits.projections:
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
        self.init_weights(model, seed=seed)
        return model

    def stacks(self) -> Mapping[str, Sequence[Mapping[str, AttentionShape]]]:
        kinds = {"attention": self.attention}
        with_memory = kinds | {"cross_attention": self.cross_attention}
        return {
            "encoder": self._attention_shapes(kinds),
            "decoder": self._attention_shapes(with_memory),
        }

    def count_top_layers(self, layers: int) -> list[ParameterCount]:
        top = self.model_copy(update={"layers": layers})
        counts = top.count_stack_parameters(cross_attention=self.cross_attention)
        return [count.on("decoder") for count in counts]

    def count_parameters(self, vocabulary: int) -> list[ParameterCount]:
        decoder = self.count_stack_parameters(cross_attention=self.cross_attention)
        tokens, *positions = self.count_embedding_parameters(vocabulary)
        return [
            tokens,
            *(count.on("encoder") for count in positions),
            *(count.on("decoder") for count in positions),
            *(count.on("encoder") for count in self.count_stack_parameters()),
            *(count.on("decoder") for count in decoder),
            *self.count_head_parameters(vocabulary),
        ]
