"""Random synthesizer: attention weights depend on positions alone, never on the tokens.

    weight_ij = softmax_j R[position_i, position_j]     R = A Bᵀ if factorised      Tay et al., 2020

R is drawn at random, one per head, and then trained like any parameter, or left as drawn: every
text is mixed by the same pattern. Shapes: b batch, h heads, i query, j key, c context, r rank.
Masks: True = may attend.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.function import HeadShape
from regard.attention.kinds import AttentionKind, kind
from regard.attention.mixer import Mixer
from regard.attention.synthesizer import Synthesizer, value_and_out_parameters
from regard.attention.token_positions import TokenPositions


@kind(
    "synthesizer-random",
    cost="n² · d",
    cross=False,
    relative_positions=(),
    projections=("separate",),
    grouped_heads=False,
)
class SynthesizerRandom(AttentionKind):
    """Scores are a matrix over positions, drawn at random: the same for every text."""

    trained: bool = True
    "Whether the matrix is trained; if not, it stays as drawn."
    rank: int = Field(default=0, ge=0)
    "Rank of the factorised matrix A Bᵀ; 0: a full matrix."
    draw: int = Field(default=0, ge=0, le=2**31 - 1)
    "Seed of a matrix that is not trained; a trained one is initialised from the run's seed."

    def build(self, shape: HeadShape) -> Mixer:
        factors = _draw_factors(shape, rank=self.rank, draw=self.draw)
        return RandomSynthesizer(shape, factors, trained=self.trained)

    def own_parameters(self, shape: HeadShape) -> int:
        """Value and out; if trained, R or its two factors per head."""
        columns = 2 * self.rank or shape.context
        return (
            value_and_out_parameters(shape) + self.trained * shape.heads * shape.context * columns
        )


class RandomSynthesizer(Synthesizer):
    pattern: Tensor
    query_factor: Tensor
    key_factor: Tensor

    def __init__(self, shape: HeadShape, factors: dict[str, Tensor], *, trained: bool) -> None:
        super().__init__(shape)
        for name, values in factors.items():
            if trained:
                self.register_parameter(name, nn.Parameter(values))
            else:
                self.register_buffer(name, values)
        self.factorised = len(factors) > 1

    def scores(self, x: Tensor, positions: TokenPositions) -> Tensor:
        """(b,i,w), the row's j positions -> (b or 1,h,i,j); of x only the length counts"""
        queries, keys = positions.last(x.shape[1]), positions.ids
        if self.factorised:
            query_rows = self.query_factor[:, queries].transpose(0, 1)
            return query_rows @ self.key_factor[:, keys].transpose(0, 1).transpose(-2, -1)
        if positions.in_order:
            end = keys.shape[1]
            return self.pattern[None, :, end - x.shape[1] : end, :end]
        return self.pattern[:, queries[:, :, None], keys[:, None]].transpose(0, 1)


def _draw_factors(shape: HeadShape, *, rank: int, draw: int) -> dict[str, Tensor]:
    """R (h,c,c), or A and B (h,c,r); as drawn, each score has variance 1."""
    # A matrix that is not trained must be the same in every process, and differ between layers:
    # its seed is `draw` and the layer. A trained one is redrawn with a far smaller std when a model
    # is built: models initialise their parameters themselves.
    generator = torch.Generator().manual_seed(draw * 10_007 + shape.layer)
    h, c = shape.heads, shape.context
    if not rank:
        return {"pattern": torch.randn(h, c, c, generator=generator)}
    return {
        name: torch.randn(h, c, rank, generator=generator) / rank**0.25
        for name in ("query_factor", "key_factor")
    }
