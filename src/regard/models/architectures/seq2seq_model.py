"""Sequence-to-sequence models: encode a source sequence, decode a target sequence from it.

Shapes: b batch, s source position, t target position, w model width, v vocabulary. `valid`: True =
a token.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from regard.attention.cache import ModelCache
from regard.batch import RowLayout
from regard.core.errors import UserError
from regard.models.inputs import ModelInputs
from regard.models.model import TokenModel


class Seq2SeqModel(TokenModel):
    entry_points: ClassVar[tuple[str, ...]] = ("hidden_states", "logits", "encode")
    reads: ClassVar = "source and target"
    generates: ClassVar = True

    @abstractmethod
    def encode(self, source: Tensor, valid: Tensor, layout: RowLayout | None = None) -> ModelCache:
        """Encode the source (b,s): the decoder's cache, with the encoder's output as its memory.
        `layout` is that of `valid`, where it is known."""


def source_of(inputs: ModelInputs) -> tuple[Tensor, Tensor]:
    """The source (b,s) and where it holds tokens."""
    if inputs.source is None or inputs.source_valid is None:
        raise UserError(
            "this model decodes from a source sequence, and the objective gives none",
            topic="objective",
            hint='Set objective = "prefix".',
        )
    return inputs.source, inputs.source_valid


def memory_of(cache: ModelCache) -> tuple[Tensor, Tensor]:
    """The encoder's output (b,j,w) and where the source holds tokens."""
    assert cache.memory is not None
    assert cache.memory_valid is not None
    return cache.memory, cache.memory_valid
