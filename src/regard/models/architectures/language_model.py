"""The decoder-only language model: embedding, stack, next-token logits at every position.

Shapes: b batch, t or i position, j key, w model width, v vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention.cache import ModelCache
from regard.attention.decode_step import DecodeMask, DecodeStep
from regard.attention.masks.mask import Mask, causal, padding
from regard.attention.token_positions import TokenPositions
from regard.batch import RowLayout
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.token_history import new_token_history
from regard.models.inputs import ModelInputs, causal_rows


class LanguageModel(SequenceModel):
    entry_points: ClassVar[tuple[str, ...]] = ("hidden_states", "logits", "step")
    generates: ClassVar = True

    def own_positions_and_mask(
        self,
        valid: Tensor | None,
        *,
        length: int,
        device: torch.device,
        layout: RowLayout | None = None,
    ) -> tuple[TokenPositions, Mask]:
        return causal_rows(valid, length=length, device=device, layout=layout)

    def new_cache(self, rows: int) -> ModelCache:
        """An empty KV cache for generation."""
        if not self.cacheable:
            return new_token_history()
        prompt_length = 0 if self.prompt is None else len(self.prompt)
        return self.stack.new_cache(prompt_length + self.context)

    def step(
        self, ids: Tensor, *, valid: Tensor | None, positions: Tensor, cache: ModelCache
    ) -> Tensor:
        """Process new tokens (b,i) after those in the cache; logits after the last one, (b,v).

        `valid` (b,j) is True where a key is a token (prompts are padded on the left), None if all
        are; `positions` (b or 1,i) are those of the new tokens.
        """
        decode_stack = self.stack.decode_stack(ids.shape[1], cache) if self.cacheable else None
        if decode_stack is None or self.virtual_prefix.length:
            y: Tensor = self.head(self.hidden_states(ModelInputs(ids, valid), cache=cache)[:, -1])
            return y
        x = decode_stack.embed(ids, positions, self.embedding)
        mask = DecodeMask.from_valid(
            valid, partial(_causal_mask, valid), position=cache.length, dtype=x.dtype
        )
        row_positions = partial(_token_positions, valid, cache.length + 1, ids.device)
        x = decode_stack(x, DecodeStep(ids.shape[0], positions, mask, None, row_positions), cache)
        if self.head.transform is not None:
            y = self.head(x)
            return y
        return decode_stack.logits(x, self.head.tokens)


def _token_positions(valid: Tensor | None, length: int, device: torch.device) -> TokenPositions:
    """Positions of whole rows, cached tokens included."""
    return causal_rows(valid, length=length, device=device)[0]


def _causal_mask(valid: Tensor | None) -> Mask:
    return causal() if valid is None else causal() & padding(valid)
