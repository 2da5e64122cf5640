"""No positions: the model sees a bag of tokens, but for what a causal mask gives away."""

from __future__ import annotations

from regard.attention.positions import POSITIONS, PositionKind


@POSITIONS.add("none", reach="any place", acts="not at all")
class NoPositions(PositionKind):
    """Nothing: order shows only through the mask."""
