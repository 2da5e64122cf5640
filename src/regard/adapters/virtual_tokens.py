"""What prompt and prefix tuning share: virtual tokens before every row.

They reduce the context for tokens, and are no change of the model's weights.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from regard.adapters import ADAPTERS, Adapter, no_blocks_error
from regard.core.errors import UserError
from regard.core.settings import catalog_name
from regard.models.blocks.virtual_tokens import VirtualTokens
from regard.models.model import Model, TokenModel

VirtualTokenInit = Literal["tokens", "random"]


class VirtualTokenAdapter(Adapter):
    """Settings of an adapter that puts virtual tokens before every row."""

    length: int = Field(default=20, ge=1)
    "Number of virtual tokens; they reduce the context for tokens."

    @property
    def virtual_tokens(self) -> int:
        return self.length

    def adapt(self, body: TokenModel, *, seed: int) -> None:
        holder = body.virtual_tokens
        if holder is None:
            raise no_blocks_error(self)
        self.check_context(body.context)
        self.insert(body, holder, seed=seed)

    @abstractmethod
    def insert(self, body: TokenModel, holder: VirtualTokens, *, seed: int) -> None:
        """Insert the parameters of the virtual tokens."""

    def merge(self, model: Model) -> None:
        raise UserError(
            f"a {catalog_name(self, ADAPTERS)} is no change of the model's weights: there is "
            "nothing to merge it into",
            topic="adapt",
            hint="Keep it beside its base model, or adapt by LoRA, which can be merged.",
        )

    def check_context(self, context: int) -> None:
        if self.length > context - 2:
            kind = catalog_name(self, ADAPTERS)
            raise UserError(
                f"a {kind} of {self.length} virtual tokens leaves {max(0, context - self.length)} "
                f"of model.context = {context} for the text",
                topic="adapt",
                where="adapt.length",
                hint=f"Give at most {context - 2}; a few dozen are usual.",
            )


def draw_token_ids(vocabulary: int, count: int, generator: torch.Generator) -> Tensor:
    """(count): distinct token ids, as far as the vocabulary has enough."""
    rounds = -(-count // vocabulary)
    permutations = [torch.randperm(vocabulary, generator=generator) for _ in range(rounds)]
    return torch.cat(permutations)[:count]
