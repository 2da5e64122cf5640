"""Group attention: block-local attention, where each position attends inside its own group.

    score(q_i, k_j) = q_i · k_j / √d   where group(i) = group(j)          block-local attention,
                                                                          Liu et al., 2018

G blocks of n/G positions cost n²/G instead of n². Fusion layers, full attention in between, let
information pass between the groups. Groups by segment or by modality are given by ids; they forbid
as much, but all scores are still computed. Not to be confused with grouped-query attention, which
shares key/value heads (`multi_head.py`).
Shapes: b batch, h heads, i query, j key. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from pydantic import Field

from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds import AttentionKind, kind
from regard.attention.kinds.dot import DotProduct
from regard.attention.masks.mask import Mask, bidirectional, same_block, same_group
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError


@kind("group", cost="n² · d / G", cross=False)
class Group(AttentionKind):
    """Scaled dot-product inside groups of positions; fusion layers, if any, attend across them."""

    by: Literal["count", "segments", "modality"] = "count"
    "What makes a group: an equal fraction of the context, a segment of the row, or a modality."
    groups: int = Field(default=4, ge=1)
    "Number of groups of a full row, by count: blocks of context / groups, rounded up."
    fusion_every: int = Field(default=0, ge=0)
    "Every n-th layer is a fusion layer with full attention; 0: none."

    def build(self, shape: HeadShape) -> AttentionFunction:
        if self.by == "count" and self.groups > shape.context:
            raise UserError(
                f"model.attention.groups = {self.groups} is more groups than the context has "
                f"positions ({shape.context})",
                topic="recipe",
                hint=f"Give at most {shape.context}, or a longer model.context.",
            )
        if self.fusion_every and (shape.layer + 1) % self.fusion_every == 0:
            return DotProduct()
        return GroupDotProduct(self._group_mask(shape))

    def _group_mask(self, shape: HeadShape) -> Callable[[TokenPositions], Mask]:
        if self.by == "segments":
            return _same_segment
        if self.by == "modality":
            return _same_modality
        # Blocks of the context, not of the current row: a row that grows in decoding, or is padded,
        # keeps its block boundaries.
        return partial(_same_block, size=-(-shape.context // self.groups))


class GroupDotProduct(DotProduct):
    """Scaled dot-product attention under the additional mask `group_mask`."""

    def __init__(self, group_mask: Callable[[TokenPositions], Mask]) -> None:
        super().__init__()
        self.group_mask = group_mask

    def restrict_mask(self, mask: Mask, positions: TokenPositions) -> Mask:
        return mask & self.group_mask(positions)


def _same_block(positions: TokenPositions, *, size: int) -> Mask:
    if positions.in_order:
        return same_block(size)
    return same_group(positions.ids // size)


def _same_segment(positions: TokenPositions) -> Mask:
    # A row without segment ids is one segment, as in decoding and evaluation.
    return bidirectional() if positions.segments is None else same_group(positions.segments)


def _same_modality(positions: TokenPositions) -> Mask:
    if positions.modalities is None:
        raise UserError(
            'model.attention.by = "modality" needs modality ids and these rows have none',
            topic="attention",
            hint='Use data that carries them, or set model.attention.by = "count".',
        )
    return same_group(positions.modalities)
