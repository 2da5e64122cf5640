"""Prompt tuning: a trained soft prompt before the token embeddings of every row.

    x = [P; e(token_1) … e(token_t)]        P: p × w, the only trained parameter

Lester, Al-Rfou and Constant, 2021. The virtual tokens have positions 0 … p − 1 and get position
embeddings as tokens do; the row's tokens follow at p, p + 1, …; in an encoder-decoder the prompt
stands before the source. Shapes: p virtual tokens, w width of a token embedding.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.adapters import (
    ADAPTERS,
    Adapter,
    check_virtual_length,
    no_blocks_error,
    require_transformer,
    size_symbol,
)
from regard.core.errors import UserError
from regard.core.parameter_count import ParameterCount
from regard.models.architectures.encoder_decoder_model import EncoderDecoderModel
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.embedding import token_width
from regard.models.families import Family
from regard.models.init_weights import named_generator
from regard.models.model import Model

VirtualTokenInit = Literal["tokens", "random"]


@ADAPTERS.add("prompt", trains="a soft prompt before every row")
class PromptTuning(Adapter):
    """Train a soft prompt: embeddings of virtual tokens before every row."""

    new_parameters: ClassVar = ("prompt",)

    length: int = Field(default=20, ge=1)
    "Number of virtual tokens; they reduce the context for tokens."
    init: VirtualTokenInit = "tokens"
    "Initial values: embeddings of tokens drawn by seed, or random with the std of the token table."

    @property
    def virtual_tokens(self) -> int:
        return self.length

    def adapt(self, body: Model, *, seed: int) -> None:
        if not isinstance(body, SequenceModel | EncoderDecoderModel):
            raise no_blocks_error(self)
        check_virtual_length(self.length, body, self)
        table = body.embedding.tokens.weight
        body.prompt = nn.Parameter(self._init_prompt(table, seed=seed))

    def _init_prompt(self, table: Tensor, *, seed: int) -> Tensor:
        """(p,w), with the dtype and device of the token table."""
        generator = named_generator(seed, "prompt")
        if self.init == "tokens":
            ids = draw_token_ids(len(table), self.length, generator)
            return table.detach()[ids.to(table.device)]
        draw = torch.randn(self.length, table.shape[1], generator=generator)
        return draw.to(table) * table.detach().std()

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        transformer = require_transformer(family, self)
        width = token_width(transformer.width, transformer.positions)
        formula = f"{self.length}·{size_symbol(width, transformer)}"
        return [ParameterCount("prompt", formula, self.length * width)]

    def merge(self, model: Model) -> None:
        raise not_mergeable_error("prompt")


def draw_token_ids(vocabulary: int, count: int, generator: torch.Generator) -> Tensor:
    """(count): distinct token ids, as far as the vocabulary has enough."""
    rounds = -(-count // vocabulary)
    permutations = [torch.randperm(vocabulary, generator=generator) for _ in range(rounds)]
    return torch.cat(permutations)[:count]


def not_mergeable_error(kind: str) -> UserError:
    return UserError(
        f"a {kind} is no change of the model's weights: there is nothing to merge it into",
        topic="adapt",
        hint="Keep it beside its base model, or adapt by LoRA, which can be merged.",
    )
