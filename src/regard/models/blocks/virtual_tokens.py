"""Virtual tokens: the soft prompt or prefix that an adapter puts before every row.

    prompt   p embeddings before the token embeddings           Lester, Al-Rfou and Constant, 2021
    prefix   p keys and values before those of each attention   Li and Liang, 2021

Tokens attend to them. Either way a row's tokens have positions p, p + 1, …, and outputs at virtual
tokens are dropped. Virtual tokens can be masked: they keep their columns, but no position attends
to them and token positions count from 0, so the outputs are those of the model without them.
Shapes: b batch, h heads, i query, j key, t token, p virtual tokens, w model width. Masks: True =
may attend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.masks.mask import Mask, padding
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.blocks.embedding import Embedding


class VirtualPrefix(NamedTuple):
    """The virtual tokens before each row of a sequence."""

    length: int
    "Number of virtual tokens."
    first: int
    "Position of a row's first token: `length`, or 0 while the virtual tokens are masked."

    def positions(self, tokens: TokenPositions, *, fixed: Tensor | None = None) -> TokenPositions:
        """Positions of virtual tokens and tokens; tokens keep theirs where `fixed` (b,t) is set."""
        return tokens.with_virtual_tokens(self.length, first=self.first, unshifted=fixed)

    def mask(self, tokens: Mask, *, keys: int, device: torch.device) -> Mask:
        """The mask over all `keys`, virtual tokens included."""
        whole = tokens.with_virtual_tokens(self.length)
        if self.first == self.length:
            return whole
        return whole & padding(torch.arange(keys, device=device)[None] >= self.length)


class VirtualTokens(nn.Module):
    """A model that accepts a soft prompt or a prefix."""

    context: int
    "Maximum sequence length in tokens; virtual tokens reduce it."
    prompt: nn.Parameter | None
    "(p,w): embeddings before every row."
    prefix_length: int = 0
    "Virtual keys and values in each attention."
    masks_virtual_tokens: bool = False
    "Whether the virtual tokens are masked."

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("prompt", None)

    @property
    def virtual_tokens(self) -> VirtualTokens:
        return self

    def virtual_prefix_of_length(self, length: int) -> VirtualPrefix:
        return VirtualPrefix(length, 0 if self.masks_virtual_tokens else length)

    @property
    def virtual_prefix(self) -> VirtualPrefix:
        """Prompt and prefix of the input rows."""
        prompt_length = 0 if self.prompt is None else len(self.prompt)
        return self.virtual_prefix_of_length(prompt_length + self.prefix_length)

    @property
    def max_positions(self) -> int:
        """Maximum sequence length, virtual tokens included."""
        return self.context + self.virtual_prefix.length

    def prepend_prompt(self, x: Tensor, embedding: Embedding, positions: TokenPositions) -> Tensor:
        """(b,t,w) -> (b,p+t,w): the prompt, with position embeddings, before embedded tokens."""
        if self.prompt is None:
            return x
        prompt = self.prompt.to(x.dtype).expand(len(x), -1, -1)
        embedded = embedding.combine_positions(prompt, positions.ids[:, : len(self.prompt)])
        return torch.cat((embedded, x), dim=1)


@contextmanager
def masked_virtual_tokens(model: nn.Module) -> Iterator[None]:
    """Mask the model's virtual tokens inside the context; positions count without them."""
    holders = [module for module in model.modules() if isinstance(module, VirtualTokens)]
    before = [holder.masks_virtual_tokens for holder in holders]
    for holder in holders:
        holder.masks_virtual_tokens = True
    try:
        yield
    finally:
        for holder, masks in zip(holders, before, strict=True):
            holder.masks_virtual_tokens = masks


def check_positions(positions: TokenPositions, embedding: Embedding, *, max_positions: int) -> None:
    """Refuse tokens that virtual tokens push past the last position embedding."""
    if positions.tokens is None or embedding.positions is None:
        return
    if positions.ids.shape[1] > max_positions and int(positions.ids.max()) >= max_positions:
        tokens = int(positions.ids.max()) + 1 - positions.virtual_tokens
        raise UserError(
            f"a row of {tokens} tokens after {positions.virtual_tokens} virtual tokens exceeds "
            f"model.context = {max_positions}",
            topic="adapt",
            hint=f"Give at most {max_positions - positions.virtual_tokens} tokens, or train with a "
            "shorter adapt.length.",
        )


def crop_to_tokens(
    recorder: AttentionRecorder, *, side: str, queries: int, keys: Mapping[str, int]
) -> None:
    """Crop recorded weights to those between tokens, on one side of a model; `keys` is the number
    of key tokens by attention name. What is missing to 1 went to virtual tokens."""
    for name, weights in recorder.weights.items():
        attention = name.rpartition(".")[2]
        if name.startswith(side):
            cropped = weights[..., -queries:, weights.shape[-1] - keys[attention] :]
            recorder.weights[name] = cropped
