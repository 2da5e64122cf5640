"""A model bound to the sources it writes from: to generation it looks like any decoder.

Shapes: b rows, s source place, i new tokens, v vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.attention.cache import ModelCache
from regard.audits.subject import Subject

SOURCE_PLACES = 7
"Of the source that an audited target is written from; any length would do."


class Seq2SeqDecoder(Protocol):
    """A model that writes from a source."""

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
            raise ValueError(f"{rows} rows are to be written from {len(self.source)} sources")
        return self.model.new_cache_for(self.source, self.valid)

    def step(
        self, ids: Tensor, *, valid: Tensor | None, positions: Tensor, cache: ModelCache
    ) -> Tensor:
        """The scores after the last of the new tokens, (b,v)."""
        if valid is None:
            length = cache.length + ids.shape[1]
            valid = torch.ones(len(ids), length, dtype=torch.bool, device=ids.device)
        return self.model.step(ids, valid=valid, cache=cache)[:, -1]


def audited_writer(
    model: Seq2SeqDecoder,
    *,
    name: str,
    vocabulary: int,
    embedding: str,
    weights: Mapping[str, Callable[[], Any]] | None = None,
) -> Subject:
    """The target's side of a model that writes, from one source that stays the same throughout.

    `weights` are the arguments of `logits` that ask for attention weights, made anew each time."""
    generator = torch.Generator().manual_seed(0)
    positions = min(model.context, SOURCE_PLACES)
    source = torch.randint(vocabulary, (1, positions), generator=generator)

    def given(ids: Tensor) -> dict[str, Tensor]:
        sources = source.to(ids.device).expand(len(ids), -1)
        return {"source": sources, "source_valid": torch.ones_like(sources, dtype=torch.bool)}

    def in_pieces(writer: Any, ids: Tensor, cuts: Sequence[int]) -> Tensor:
        cache = writer.new_cache_for(*given(ids).values())
        valid = torch.ones_like(ids, dtype=torch.bool)
        pieces = [
            writer.step(ids[:, begin:end], valid=valid[:, :end], cache=cache)
            for begin, end in pairwise([0, *cuts, ids.shape[1]])
        ]
        return torch.cat(pieces, dim=1)

    def with_weights(writer: Any, ids: Tensor) -> Tensor:
        asked = {key: make() for key, make in (weights or {}).items()}
        scores: Tensor = writer.logits(ids, **given(ids), **asked)
        return scores

    assert isinstance(model, nn.Module)
    return Subject(
        name,
        lambda writer, ids, valid: writer.logits(ids, **given(ids)),
        module=model,
        vocabulary=vocabulary,
        longest=model.context,
        embedding=embedding,
        run_cached=in_pieces,
        run_with_weights=with_weights if weights else None,
    )
