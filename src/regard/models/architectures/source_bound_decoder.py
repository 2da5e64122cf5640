"""A seq2seq model bound to its source sequences: generation decodes with it as with any decoder.

Shapes: b rows, s source position, i new tokens, v vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.attention.cache import ModelCache
from regard.audits.subject import Subject

AUDIT_SOURCE_LENGTH = 7
"Length of the source sequence in audits; any length would do."


class Seq2SeqDecoder(Protocol):
    """What decoding needs of a seq2seq model."""

    context: int

    def new_cache_for(self, source: Tensor, valid: Tensor) -> ModelCache: ...
    def step(self, ids: Tensor, *, valid: Tensor, cache: ModelCache) -> Tensor: ...


class SourceBoundDecoder(nn.Module):
    def __init__(self, model: Seq2SeqDecoder, source: Tensor, valid: Tensor) -> None:
        super().__init__()
        self.model = model
        self.source = source
        self.valid = valid

    @property
    def context(self) -> int:
        return self.model.context

    def new_cache(self, rows: int) -> ModelCache:
        if rows != len(self.source):
            raise ValueError(f"{rows} rows to decode from {len(self.source)} sources")
        return self.model.new_cache_for(self.source, self.valid)

    def step(
        self, ids: Tensor, *, valid: Tensor | None, positions: Tensor, cache: ModelCache
    ) -> Tensor:
        """Logits after the last of the new tokens, (b,v)."""
        if valid is None:
            length = cache.length + ids.shape[1]
            valid = torch.ones(len(ids), length, dtype=torch.bool, device=ids.device)
        return self.model.step(ids, valid=valid, cache=cache)[:, -1]


def seq2seq_audit_subject(
    model: Seq2SeqDecoder,
    *,
    name: str,
    vocabulary: int,
    embedding: str,
    weights: Mapping[str, Callable[[], Any]] | None = None,
) -> Subject:
    """The decoder side of a seq2seq model, with one fixed source sequence.

    `weights` are the arguments of `logits` that request attention weights, built for each call."""
    generator = torch.Generator().manual_seed(0)
    length = min(model.context, AUDIT_SOURCE_LENGTH)
    source = torch.randint(vocabulary, (1, length), generator=generator)

    def source_arguments(ids: Tensor) -> dict[str, Tensor]:
        sources = source.to(ids.device).expand(len(ids), -1)
        return {"source": sources, "source_valid": torch.ones_like(sources, dtype=torch.bool)}

    def run_cached(decoder: Any, ids: Tensor, cuts: Sequence[int]) -> Tensor:
        cache = decoder.new_cache_for(*source_arguments(ids).values())
        valid = torch.ones_like(ids, dtype=torch.bool)
        pieces = [
            decoder.step(ids[:, begin:end], valid=valid[:, :end], cache=cache)
            for begin, end in pairwise([0, *cuts, ids.shape[1]])
        ]
        return torch.cat(pieces, dim=1)

    def run_with_weights(decoder: Any, ids: Tensor) -> Tensor:
        arguments = {key: build() for key, build in (weights or {}).items()}
        logits: Tensor = decoder.logits(ids, **source_arguments(ids), **arguments)
        return logits

    assert isinstance(model, nn.Module)
    return Subject(
        name,
        lambda decoder, ids, valid: decoder.logits(ids, **source_arguments(ids)),
        module=model,
        vocabulary=vocabulary,
        max_length=model.context,
        embedding=embedding,
        run_cached=run_cached,
        run_with_weights=run_with_weights if weights else None,
    )
