"""Virtual places: what an adapter puts before every row, seen by its tokens and no token itself.

    prompt   p vectors that join the embedded tokens            Lester, Al-Rfou and Constant, 2021
    prefix   p keys and values in front of every attention      Li and Liang, 2021

Either way a row's tokens stand at p, p + 1, …, and what is made of the virtual places is cut off.
Hidden ones stay where they are, but no place sees them and nothing is counted from them: a model
then answers as if they were not there.
Shapes: b batch, h heads, i query, j key, t token, p virtual places, w model width. Masks: True =
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
from regard.models.blocks.embedding import Embedding
from regard.models.blocks.recorder import AttentionRecorder


class VirtualPrefix(NamedTuple):
    """What stands before each row."""

    length: int
    "Virtual places."
    first: int
    "The position of a row's first token: behind those places, or 0 while they are hidden."

    def positions(self, tokens: TokenPositions, *, still: Tensor | None = None) -> TokenPositions:
        """Where all stand; tokens where `still` (b,t) is True keep their positions."""
        return tokens.behind(self.length, first=self.first, still=still)

    def mask(self, tokens: Mask, *, keys: int, device: torch.device) -> Mask:
        """What may be seen, the virtual places among the `keys`."""
        whole = tokens.behind(self.length)
        if self.first == self.length:
            return whole
        return whole & padding(torch.arange(keys, device=device)[None] >= self.length)


class VirtualTokens(nn.Module):
    """A model that a prompt or a prefix can be given to."""

    context: int
    "Tokens it sees at once: virtual places take away from them."
    prompt: nn.Parameter | None
    "(p,w): vectors that stand before every row."
    prefix_length: int = 0
    "Virtual keys and values that each attention holds."
    hides_virtual: bool = False
    "Whether the virtual places are there and not seen."

    def front_of(self, length: int) -> VirtualPrefix:
        return VirtualPrefix(length, 0 if self.hides_virtual else length)

    @property
    def front(self) -> VirtualPrefix:
        """Of the rows that it reads."""
        prompted = 0 if self.prompt is None else len(self.prompt)
        return self.front_of(prompted + self.prefix_length)

    @property
    def reach(self) -> int:
        """Places it sees at once, virtual ones among them."""
        return self.context + self.front.length

    def behind_prompt(self, x: Tensor, embedding: Embedding, positions: TokenPositions) -> Tensor:
        """(b,t,w) -> (b,p+t,w): embedded tokens, with the prompt embedded before them."""
        if self.prompt is None:
            return x
        vectors = self.prompt.to(x.dtype).expand(len(x), -1, -1)
        front = embedding.placed(vectors, positions.ids[:, : len(self.prompt)])
        return torch.cat((front, x), dim=1)


@contextmanager
def hidden_virtual(model: nn.Module) -> Iterator[None]:
    """While inside, a model's virtual places are masked and positions are counted without them."""
    holders = [module for module in model.modules() if isinstance(module, VirtualTokens)]
    before = [holder.hides_virtual for holder in holders]
    for holder in holders:
        holder.hides_virtual = True
    try:
        yield
    finally:
        for holder, hides in zip(holders, before, strict=True):
            holder.hides_virtual = hides


def check_room(positions: TokenPositions, embedding: Embedding, *, reach: int) -> None:
    """Refuse tokens that virtual places push beyond the last position that has a vector."""
    if positions.tokens is None or embedding.positions is None:
        return
    if positions.ids.shape[1] > reach and int(positions.ids.max()) >= reach:
        tokens = int(positions.ids.max()) + 1 - positions.virtual
        raise UserError(
            f"a row of {tokens} tokens behind {positions.virtual} virtual places, where "
            f"model.context = {reach}",
            topic="adapt",
            hint=f"Give at most {reach - positions.virtual} tokens, or train with a shorter "
            "adapt.length.",
        )


def keep_tokens(
    recorder: AttentionRecorder, *, side: str, queries: int, keys: Mapping[str, int]
) -> None:
    """Cut recorded weights to those between tokens, on one side of a model; `keys` tells how many
    tokens each sort of attention looks at. What is missing to 1 went to virtual places."""
    for name, weights in recorder.weights.items():
        sort = name.rpartition(".")[2]
        if name.startswith(side):
            kept = weights[..., -queries:, weights.shape[-1] - keys[sort] :]
            recorder.weights[name] = kept
