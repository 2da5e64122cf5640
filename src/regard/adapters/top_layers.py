"""Top layers only: the last blocks and the final norm are trained, those below stay frozen.

In an encoder-decoder these are the decoder's.
"""

from __future__ import annotations

from pydantic import Field

from regard.adapters import ADAPTERS, Adapter, no_blocks_error, require_transformer
from regard.core.errors import UserError
from regard.core.parameter_count import ParameterCount
from regard.models.architectures.encoder_decoder_model import EncoderDecoderModel
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.stack import Stack
from regard.models.families import Family
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.model import Model


@ADAPTERS.add("top", trains="the last blocks and the final norm")
class TopLayers(Adapter):
    """Train the last blocks and the final norm."""

    layers: int = Field(default=1, ge=1)
    "Number of trained blocks, counted from the last."

    def adapt(self, body: Model, *, seed: int) -> None:
        stack = self._stack(body)
        self._check_depth(len(stack.blocks))
        for block in stack.blocks[-self.layers :]:
            block.requires_grad_(True)
        stack.norm.requires_grad_(True)

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        transformer = require_transformer(family, self)
        self._check_depth(transformer.layers)
        top = transformer.model_copy(update={"layers": self.layers})
        if isinstance(top, EncoderDecoder):
            counts = top.count_stack_parameters(cross_attention=top.cross_attention)
            return [count.on("decoder") for count in counts]
        return top.count_stack_parameters()

    def _stack(self, body: Model) -> Stack:
        if isinstance(body, SequenceModel):
            return body.stack
        if isinstance(body, EncoderDecoderModel):
            return body.decoder
        raise no_blocks_error(self)

    def _check_depth(self, depth: int) -> None:
        if self.layers > depth:
            raise UserError(
                f"adapt.layers = {self.layers} is more blocks than the model has ({depth})",
                topic="adapt",
                hint=f'Give at most {depth}, or adapt.kind = "full".',
            )
