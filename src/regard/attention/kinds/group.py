"""Group attention: the row is cut into groups, and each place attends inside its own.

    score(q_i, k_j) = q_i · k_j / √d   where group(i) = group(j)          block-local attention,
                                                                          Liu et al., 2018

G blocks of n/G places cost n²/G instead of n². Layers that see everything in between, the fusion
layers, let the groups learn of each other. Groups by segment or by modality are cut where the ids
say; they forbid as much, but the scores are still computed whole.
Shapes: b batch, h heads, i query, j key. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from pydantic import Field
from torch import Tensor

from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds import AttentionKind, kind
from regard.attention.kinds.dot import DotProduct
from regard.attention.masks.mask import Mask, bidirectional, same_block, same_group
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError


@kind("group", cost="n² · d / G", cross=False)
class Group(AttentionKind):
    """Scaled dot-product inside groups of places; fusion layers, if any, see across them."""

    by: Literal["count", "segments", "modality"] = "count"
    "What makes a group: an equal share of the context, a text of the row, or words and patches."
    groups: int = Field(default=4, ge=1)
    "How many groups a full row is cut into, by count: blocks of context / groups, rounded up."
    fusion_every: int = Field(default=0, ge=0)
    "Every so many layers, one attends to everything; 0 means none does."

    def build(self, shape: HeadShape) -> AttentionFunction:
        if self.by == "count" and self.groups > shape.context:
            raise UserError(
                f"model.attention.groups = {self.groups} is more groups than the context has "
                f"places ({shape.context})",
                topic="recipe",
                hint=f"Give at most {shape.context}, or a longer model.context.",
            )
        if self.fusion_every and (shape.layer + 1) % self.fusion_every == 0:
            return DotProduct()
        return InsideGroups(self._membership(shape))

    def _membership(self, shape: HeadShape) -> Callable[[TokenPositions], Mask]:
        if self.by == "segments":
            return _same_segment
        if self.by == "modality":
            return _same_modality
        # Cut from the context and not from the row at hand: a row that grows while decoding, or
        # that is padded, keeps its borders.
        return partial(_same_share, size=-(-shape.context // self.groups))


class InsideGroups(DotProduct):
    """Scaled dot-product between places of which `membership` says that they belong together."""

    def __init__(self, membership: Callable[[TokenPositions], Mask]) -> None:
        super().__init__()
        self.membership = membership

    def narrow(self, mask: Mask, positions: TokenPositions) -> Mask:
        return mask & self.membership(positions)


def _same_share(positions: TokenPositions, *, size: int) -> Mask:
    if positions.in_order:
        return same_block(size)
    return same_group(positions.ids // size)


def _same_segment(positions: TokenPositions) -> Mask:
    # A row without segment ids holds one text, as in decoding and measuring.
    return bidirectional() if positions.segments is None else same_group(positions.segments)


def _same_modality(positions: TokenPositions) -> Mask:
    return same_group(_given(positions.modalities, setting="modality", lacking="modality ids"))


def _given(ids: Tensor | None, *, setting: str, lacking: str) -> Tensor:
    if ids is None:
        raise UserError(
            f'model.attention.by = "{setting}" needs {lacking} and these rows have none',
            topic="attention",
            hint='Use data that carries them, or set model.attention.by = "count".',
        )
    return ids
