"""The decoder-only language model: embedding, stack, next-token logits at every position.

Shapes: b batch, t or i position, j key, w model width, v vocabulary. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from regard.attention.cache import BlockCache, ModelCache, RecurrentState
from regard.attention.decode_step import DecodeMask, DecodeStep
from regard.attention.masks.mask import Mask, causal, padding
from regard.attention.token_positions import TokenPositions
from regard.audits.subject import Subject
from regard.batch import Batch
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.loss import LossTerm


class LanguageModel(SequenceModel):
    cacheable = True
    "False if its attention cannot be cached: then each step recomputes the whole row."

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        term = self.head.loss_term(
            self.hidden_states(self.embed_batch(batch)),
            targets=batch.targets,
            weights=batch.weights,
            smoothing=batch.smoothing if self.training else 0.0,
        )
        return {"token": term}

    def positions_and_mask(self, ids: Tensor, valid: Tensor | None) -> tuple[TokenPositions, Mask]:
        if valid is None or _is_right_padded(valid):
            # The causal mask already keeps tokens from attending to padding on the right.
            return TokenPositions.of_row(ids.shape[1], device=ids.device), causal()
        return TokenPositions.of_padded(valid), causal() & padding(valid)

    def new_cache(self, rows: int) -> ModelCache:
        """An empty KV cache for generation."""
        if not self.cacheable:
            return ModelCache([BlockCache(_TokenHistory())])
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
            y: Tensor = self.head(self.cached_hidden_states(ids, valid=valid, cache=cache)[:, -1])
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

    def cached_hidden_states(
        self, ids: Tensor, *, valid: Tensor | None, cache: ModelCache
    ) -> Tensor:
        """(b,i) -> (b,i,w): the last hidden states of new tokens after those in the cache."""
        history = cache.blocks[0].self_attention
        if isinstance(history, _TokenHistory):
            row = self.embed(history.extend(ids), valid=valid)
            return self.hidden_states(row)[:, -ids.shape[1] :]
        virtual = self.virtual_prefix.length if cache.length else 0
        positions = _token_positions(valid, cache.length - virtual + ids.shape[1], ids.device)
        mask = _causal_mask(None if positions.in_order else valid)
        return self.hidden_states(self.embed_at(ids, positions, mask=mask), cache=cache)

    def audit_subject(self) -> Subject:
        return replace(super().audit_subject(), run_cached=_run_cached)


class _TokenHistory(RecurrentState):
    """The token ids so far, for models that recompute the whole row at each step."""

    def extend(self, ids: Tensor) -> Tensor:
        self.update([torch.cat((*self.state, ids), dim=1)], positions=ids.shape[1])
        return self.state[0]


def _token_positions(valid: Tensor | None, length: int, device: torch.device) -> TokenPositions:
    """Positions of whole rows, cached tokens included."""
    return (
        TokenPositions.of_row(length, device=device)
        if valid is None
        else TokenPositions.of_padded(valid)
    )


def _causal_mask(valid: Tensor | None) -> Mask:
    return causal() if valid is None else causal() & padding(valid)


def _is_right_padded(valid: Tensor) -> bool:
    """Whether all padding is on the right."""
    return bool((valid[:, :-1] >= valid[:, 1:]).all())


def _run_cached(model: LanguageModel, ids: Tensor, cuts: Sequence[int]) -> Tensor:
    """Logits at every position, computed through the cache in the pieces between `cuts`."""
    cache, valid = model.new_cache(len(ids)), torch.ones_like(ids, dtype=torch.bool)
    pieces = [
        model.head(model.cached_hidden_states(ids[:, begin:end], valid=valid[:, :end], cache=cache))
        for begin, end in pairwise([0, *cuts, ids.shape[1]])
    ]
    return torch.cat(pieces, dim=1)
