"""Prompt tuning: trained vectors stand before every row, as if they were words.

    x = [P; e(token_1) … e(token_t)]        P: p × w, the only thing that is trained

Lester, Al-Rfou and Constant, 2021. They stand at positions 0 … p − 1, are joined with the vectors
of their places like tokens, and the row's own tokens follow at p, p + 1, …; in an encoder-decoder
they stand before the source. Shapes: p virtual places, w width of a token's vector.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.adapters import ADAPTERS, Adapter, check_length, letter, no_blocks, transformer_of
from regard.core.count import Term
from regard.core.errors import UserError
from regard.models.architectures.encoder_decoder_model import EncoderDecoderModel
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.embedding import token_width
from regard.models.families import Family
from regard.models.init_weights import named_generator
from regard.models.model import Model

Start = Literal["vocabulary", "random"]


@ADAPTERS.add("prompt", trains="vectors that stand before every row")
class PromptTuning(Adapter):
    """Train vectors that stand before every row, like words that no vocabulary has."""

    length: int = Field(default=20, ge=1)
    "How many vectors; they take so many places of the context."
    start: Start = "vocabulary"
    "Vectors of tokens drawn by seed, or random ones that spread as those of the tokens do."

    @property
    def virtual_tokens(self) -> int:
        return self.length

    def change(self, body: Model, *, seed: int) -> None:
        if not isinstance(body, SequenceModel | EncoderDecoderModel):
            raise no_blocks(self)
        check_length(self.length, body, self)
        table = body.embedding.tokens.weight
        body.prompt = nn.Parameter(self._drawn(table, seed=seed))

    def _drawn(self, table: Tensor, *, seed: int) -> Tensor:
        """(p,w), of the token table's precision and on its device."""
        generator = named_generator(seed, "prompt")
        if self.start == "vocabulary":
            return table.detach()[drawn_ids(len(table), self.length, generator).to(table.device)]
        draw = torch.randn(self.length, table.shape[1], generator=generator)
        return draw.to(table) * table.detach().std()

    def terms(self, family: Family, *, vocabulary: int) -> list[Term]:
        transformer = transformer_of(family, self)
        wide = token_width(transformer.width, transformer.positions)
        return [Term("prompt", f"{self.length}·{letter(wide, transformer)}", self.length * wide)]

    def merge(self, model: Model) -> None:
        raise not_of_the_weights("prompt")


def drawn_ids(vocabulary: int, count: int, generator: torch.Generator) -> Tensor:
    """(count): ids that differ, as far as there are enough."""
    rounds = -(-count // vocabulary)
    order = [torch.randperm(vocabulary, generator=generator) for _ in range(rounds)]
    return torch.cat(order)[:count]


def not_of_the_weights(kind: str) -> UserError:
    return UserError(
        f"a {kind} is no part of the model's weights: there is nothing to merge it into",
        topic="adapt",
        hint="Keep it beside its base, or adapt by LoRA, which can be merged.",
    )
