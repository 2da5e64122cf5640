"""A language model: embed the tokens, run the blocks, score the next token at every place.

Shapes: b batch, t or i place, j key, w model width, v vocabulary. Masks: True = may attend.
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
    "False where its attention reads a row otherwise token by token: then rows are read anew."

    def forward(self, batch: Batch) -> dict[str, LossTerm]:
        term = self.head.term(
            self.read(batch),
            targets=batch.targets,
            weights=batch.weights,
            smoothing=batch.smoothing if self.training else 0.0,
        )
        return {"token": term}

    def standing(self, ids: Tensor, valid: Tensor | None) -> tuple[TokenPositions, Mask]:
        if valid is None or _ends_alone(valid):
            # Padding on the right stands where no real place can look anyway.
            return TokenPositions.of_row(ids.shape[1], device=ids.device), causal()
        return TokenPositions.of_padded(valid), causal() & padding(valid)

    def new_cache(self, rows: int) -> ModelCache:
        if not self.cacheable:
            return ModelCache([BlockCache(_Row())])
        prompted = 0 if self.prompt is None else len(self.prompt)
        return self.stack.new_cache(prompted + self.context)

    def step(
        self, ids: Tensor, *, valid: Tensor | None, positions: Tensor, cache: ModelCache
    ) -> Tensor:
        """Read new tokens (b,i) after those in the cache; the scores after the last one, (b,v).

        `valid` (b,j) is True where a key holds a token (prompts are padded on the left), None
        where all do; `positions` (b or 1,i) are those of the new tokens.
        """
        ready = self.stack.ready_for(ids.shape[1], cache) if self.cacheable else None
        if ready is None or self.front.length:
            y: Tensor = self.head(self.after(ids, valid=valid, cache=cache)[:, -1])
            return y
        x = ready.embedded(ids, positions, self.embedding)
        own = DecodeMask.of_tokens(valid, partial(_seen, valid), place=cache.length, dtype=x.dtype)
        whole = partial(_read, valid, cache.length + 1, ids.device)
        x = ready(x, DecodeStep(ids.shape[0], positions, own, positions=whole), cache)
        return ready.scores(x, self.head.tokens) if self.head.network is None else self.head(x)

    def after(self, ids: Tensor, *, valid: Tensor | None, cache: ModelCache) -> Tensor:
        """What stands at new places (b,i) after those in the cache, (b,i,w)."""
        row = cache.blocks[0].own
        if isinstance(row, _Row):
            return self.encode(row.extend(ids), valid=valid)[:, -ids.shape[1] :]
        virtual = self.front.length if cache.length else 0
        positions = _read(valid, cache.length - virtual + ids.shape[1], ids.device)
        mask = _seen(None if positions.in_order else valid)
        return self.hidden(ids, positions, mask=mask, cache=cache)

    def audit_subject(self) -> Subject:
        return replace(super().audit_subject(), run_cached=_in_pieces)


class _Row(RecurrentState):
    """Remembers the tokens themselves, to be read anew with each that follows."""

    def extend(self, ids: Tensor) -> Tensor:
        self.take([torch.cat((*self.state, ids), dim=1)], positions=ids.shape[1])
        return self.state[0]


def _read(valid: Tensor | None, positions: int, device: torch.device) -> TokenPositions:
    """Where the tokens of rows stand, cached ones included."""
    return (
        TokenPositions.of_row(positions, device=device)
        if valid is None
        else TokenPositions.of_padded(valid)
    )


def _seen(valid: Tensor | None) -> Mask:
    return causal() if valid is None else causal() & padding(valid)


def _ends_alone(valid: Tensor) -> bool:
    """Whether padding stands at the right ends of rows alone."""
    return bool((valid[:, :-1] >= valid[:, 1:]).all())


def _in_pieces(model: LanguageModel, ids: Tensor, cuts: Sequence[int]) -> Tensor:
    """The scores at every place, read through the cache in the pieces between `cuts`."""
    cache, valid = model.new_cache(len(ids)), torch.ones_like(ids, dtype=torch.bool)
    pieces = [
        model.head(model.after(ids[:, begin:end], valid=valid[:, :end], cache=cache))
        for begin, end in pairwise([0, *cuts, ids.shape[1]])
    ]
    return torch.cat(pieces, dim=1)
