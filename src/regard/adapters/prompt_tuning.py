"""Prompt tuning: a trained soft prompt before the token embeddings of every row.

    x = [P; e(token_1) … e(token_t)]        P: p × w, the only trained parameter

Lester, Al-Rfou and Constant, 2021. The virtual tokens have positions 0 … p − 1 and get position
embeddings as tokens do; the row's tokens follow at p, p + 1, …; in an encoder-decoder the prompt
stands before the source. Shapes: p virtual tokens, w width of a token embedding.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.adapters import ADAPTERS, no_blocks_error
from regard.adapters.virtual_tokens import VirtualTokenAdapter, VirtualTokenInit, draw_token_ids
from regard.core.ledger import ParameterCount
from regard.models.blocks.virtual_tokens import VirtualTokens
from regard.models.families import Family
from regard.models.init_weights import named_generator
from regard.models.model import TokenModel


@ADAPTERS.add("prompt", trains="a soft prompt before every row")
class PromptTuning(VirtualTokenAdapter):
    """Train a soft prompt: embeddings of virtual tokens before every row."""

    new_parameters: ClassVar = ("prompt",)

    init: VirtualTokenInit = "tokens"
    "Initial values: embeddings of tokens drawn by seed, or random with the std of the token table."

    def insert(self, body: TokenModel, holder: VirtualTokens, *, seed: int) -> None:
        table = body.get_parameter(f"{body.token_table}.weight")
        holder.prompt = nn.Parameter(self._init_prompt(table, seed=seed))

    def _init_prompt(self, table: Tensor, *, seed: int) -> Tensor:
        """(p,w), with the dtype and device of the token table."""
        generator = named_generator(seed, "prompt")
        if self.init == "tokens":
            ids = draw_token_ids(len(table), self.length, generator)
            return table.detach()[ids.to(table.device)]
        draw = torch.randn(self.length, table.shape[1], generator=generator)
        return draw.to(table) * table.detach().std()

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        if not family.stacks():
            raise no_blocks_error(self)
        width = family.token_width
        formula = f"{self.length}·{family.size_symbol(width)}"
        return [ParameterCount("prompt", formula, self.length * width)]
