"""A seq2seq model bound to its source sequences: generation decodes with it as with any decoder.

Shapes: b rows, s source position, i new tokens, v vocabulary.
"""

from __future__ import annotations

from typing import Protocol, TypeGuard

from torch import Tensor, nn

from regard.attention.cache import ModelCache
from regard.batch import RowLayout
from regard.models.inputs import ModelInputs
from regard.models.model import Model


class SourceDecoder(Protocol):
    """A model that decodes a target from a source sequence."""

    context: int

    def encode(
        self, source: Tensor, valid: Tensor, layout: RowLayout | None = None
    ) -> ModelCache: ...
    def logits(self, inputs: ModelInputs, *, cache: ModelCache | None = None) -> Tensor: ...


def decodes_source(model: Model) -> TypeGuard[SourceDecoder]:
    return model.generates and model.body.reads == "source and target"


class SourceBoundDecoder(nn.Module):
    """The model as a decoder for these source sequences, (b,s), padded on the right."""

    def __init__(
        self,
        model: SourceDecoder,
        source: Tensor,
        valid: Tensor,
        layout: RowLayout | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.source = source
        self.valid = valid
        self.layout = layout

    @property
    def context(self) -> int:
        return self.model.context

    def new_cache(self, rows: int) -> ModelCache:
        if rows != len(self.source):
            raise ValueError(f"{rows} rows to decode from {len(self.source)} sources")
        return self.model.encode(self.source, self.valid, self.layout)

    def step(
        self, ids: Tensor, *, valid: Tensor | None, positions: Tensor, cache: ModelCache
    ) -> Tensor:
        """Logits after the last of the new tokens, (b,v)."""
        return self.model.logits(ModelInputs(ids, valid), cache=cache)[:, -1]
