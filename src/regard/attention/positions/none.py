"""No positions (NoPE): the model sees a bag of tokens, except for what a causal mask reveals."""

from __future__ import annotations

from regard.attention.positions import POSITIONS, PositionKind


@POSITIONS.add("none", reach="any position", acts="not at all")
class NoPositions(PositionKind):
    """Nothing: the order of tokens shows only through the mask."""
