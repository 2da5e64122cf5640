"""Synthesizers: attention weights that are not computed from queries and keys.

    out = [softmax(scores_h) V_h …] W_o              Tay et al., 2020 (Synthesizer)

This is what the dense and the random synthesizer share; each computes the scores in its own way. A
score belongs to a pair of position ids, so it is looked up by position in the row, not by column of
the batch.
Shapes: b batch, h heads, i query, j key, d head width, w model width. Masks: True = may attend.
"""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from regard.attention.cache import KVCache, LayerCache
from regard.attention.function import AttentionOutput, HeadShape, masked_softmax
from regard.attention.masks.mask import Grid, Mask
from regard.attention.mixer import Mixer
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError
from regard.nn.dropout import dropout
from regard.nn.linear import Linear


class Synthesizer(Mixer):
    """Values mixed by synthesised weights."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape
        self.value = Linear(shape.model_width, shape.model_width, bias=shape.biases)
        self.out = Linear(shape.model_width, shape.model_width, bias=shape.biases)

    @abstractmethod
    def scores(self, x: Tensor, positions: TokenPositions) -> Tensor:
        """(b,i,w), the row's j positions -> (b or 1,h,i,j); x are the last i positions"""

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        positions: TokenPositions,
        memory: Tensor | None = None,
        cache: LayerCache | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        if memory is not None:
            raise UserError(
                "a synthesizer has no cross-attention to another sequence: its weights come from "
                "its own row",
                topic="attention",
                hint="Choose another attention kind, such as dot, for an encoder-decoder.",
            )
        self._check_fits(positions)
        first_query = 0
        v = self.shape.split_heads(self.value(x))
        if isinstance(cache, KVCache):
            first_query = cache.length
            _, v = cache.extend(v[..., :0], v)  # there are no keys
        grid = Grid.over(
            queries=x.shape[1],
            keys=v.shape[2],
            batch=x.shape[0],
            heads=self.shape.heads,
            first_query=first_query,
            device=x.device,
        )
        mask.check_fits(rows=x.shape[0], keys=v.shape[2], positions=v.shape[2])
        weights = masked_softmax(self.scores(x, positions), mask.materialize(grid))
        weights = weights.expand(x.shape[0], *weights.shape[1:])
        dropped = dropout(weights, self.shape.dropout) if self.training else weights
        out = self.out((dropped @ v).transpose(1, 2).flatten(2))
        return AttentionOutput(out, weights if need_weights else None, "explicit")

    def _check_fits(self, positions: TokenPositions) -> None:
        """There are scores for the positions of the context and no others."""
        if not positions.fits(self.shape.context):
            length = int(positions.ids.max()) + 1
            raise UserError(
                f"a row of {length} positions, where model.context = {self.shape.context}",
                topic="attention",
                hint="A synthesizer has scores for its context alone: "
                "raise model.context and train again, or shorten the row.",
            )


def value_and_out_parameters(shape: HeadShape) -> int:
    """Number of parameters of the value and out projections."""
    return 2 * shape.model_width * (shape.model_width + shape.biases)
