"""Top layers only: the last blocks learn, those below them keep what they know.

In an encoder-decoder these are the decoder's; the norm behind the last block is trained with them.
"""

from __future__ import annotations

from pydantic import Field

from regard.adapters import ADAPTERS, Adapter, no_blocks, transformer_of
from regard.core.count import Term
from regard.core.errors import UserError
from regard.models.architectures.encoder_decoder_model import EncoderDecoderModel
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.stack import Stack
from regard.models.families import Family
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.model import Model


@ADAPTERS.add("top", trains="the last n blocks and the norm behind them")
class TopLayers(Adapter):
    """Train the last blocks and the norm that closes them."""

    n: int = Field(default=1, ge=1)
    "How many blocks, counted from the last."

    def change(self, body: Model, *, seed: int) -> None:
        stack = self._stack(body)
        self._check_depth(len(stack.blocks))
        for block in stack.blocks[-self.n :]:
            block.requires_grad_(True)
        stack.norm.requires_grad_(True)

    def terms(self, family: Family, *, vocabulary: int) -> list[Term]:
        transformer = transformer_of(family, self)
        self._check_depth(transformer.layers)
        top = transformer.model_copy(update={"layers": self.n})
        if isinstance(top, EncoderDecoder):
            terms = top.stack_terms(cross_attention=top.cross_attention)
            return [term.on("decoder") for term in terms]
        return top.stack_terms()

    def _stack(self, body: Model) -> Stack:
        if isinstance(body, SequenceModel):
            return body.stack
        if isinstance(body, EncoderDecoderModel):
            return body.decoder
        raise no_blocks(self)

    def _check_depth(self, layers: int) -> None:
        if self.n > layers:
            raise UserError(
                f"adapt.n = {self.n} is more blocks than the model has ({layers})",
                topic="adapt",
                hint=f'Give at most {layers}, or adapt.kind = "full".',
            )
