"""Top layers only: the last blocks and the final norm are trained, those below stay frozen.

In an encoder-decoder these are the decoder's.
"""

from __future__ import annotations

from pydantic import Field

from regard.adapters import ADAPTERS, Adapter, no_blocks_error
from regard.core.errors import UserError
from regard.core.ledger import ParameterCount
from regard.models.families import Family
from regard.models.model import TokenModel


@ADAPTERS.add("top", trains="the last blocks and the final norm")
class TopLayers(Adapter):
    """Train the last blocks and the final norm."""

    layers: int = Field(default=1, ge=1)
    "Number of trained blocks, counted from the last."

    def adapt(self, body: TokenModel, *, seed: int) -> None:
        if not body.stacks:
            raise no_blocks_error(self)
        stack = list(body.stacks.values())[-1]
        self._check_depth(len(stack.blocks))
        for block in stack.blocks[-self.layers :]:
            block.requires_grad_(True)
        stack.norm.requires_grad_(True)

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        stacks = list(family.stacks().values())
        if not stacks:
            raise no_blocks_error(self)
        self._check_depth(len(stacks[-1]))
        return family.count_top_layers(self.layers)

    def _check_depth(self, depth: int) -> None:
        if self.layers > depth:
            raise UserError(
                f"adapt.layers = {self.layers} is more blocks than the model has ({depth})",
                topic="adapt",
                hint=f'Give at most {depth}, or adapt.kind = "full".',
            )
