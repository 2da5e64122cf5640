"""The structure of a mask, known without materialising it, and how it survives & and |.

Structure only makes attention faster: it never says more than the mask's predicate. Masks:
True = may attend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from regard.core.errors import UserError

Pattern = Literal["everything", "causal"]


class Band(NamedTuple):
    """No query attends to a key more than `left` positions before it or `right` after it;
    None = no bound."""

    left: int | None = None
    right: int | None = None


UNBOUNDED = Band()


@dataclass(frozen=True)
class MaskStructure:
    pattern: Pattern | None = None
    "If given, the mask is exactly this pattern on the `valid` keys."
    valid: Tensor | None = None
    "(b, j): keys that hold a token; only together with a pattern."
    band: Band = UNBOUNDED
    "A bound: every pair outside is forbidden."
    block_size: int | None = None
    "A bound: the row is cut into blocks of this many positions, and none attends to another."
    block_pattern: Pattern | None = None
    "Together with a block size: if given, the mask is exactly this pattern inside each block."

    def intersection(self, other: MaskStructure) -> MaskStructure:
        """The structure of `a & b`."""
        pattern: Pattern | None = None
        if self.pattern and other.pattern:
            pattern = "causal" if "causal" in (self.pattern, other.pattern) else "everything"
        return MaskStructure(
            pattern,
            _intersect_valid(self.valid, other.valid) if pattern else None,
            Band(
                _tighter(self.band.left, other.band.left),
                _tighter(self.band.right, other.band.right),
            ),
            _tighter(self.block_size, other.block_size),
            _intersect_block_patterns(self, other),
        )

    def union(self, other: MaskStructure) -> MaskStructure:
        """The structure of `a | b`."""
        for structure in (self, other):
            if structure.pattern == "everything" and structure.valid is None:
                return structure
        return MaskStructure(
            band=Band(
                _looser(self.band.left, other.band.left),
                _looser(self.band.right, other.band.right),
            ),
            block_size=self.block_size if self.block_size == other.block_size else None,
        )


NO_STRUCTURE = MaskStructure()


def _intersect_block_patterns(a: MaskStructure, b: MaskStructure) -> Pattern | None:
    """Of blocks with a pattern of the whole row, or with blocks of the same size."""
    if None not in (a.block_size, b.block_size) and a.block_size != b.block_size:
        return None
    if a.valid is not None or b.valid is not None:
        return None
    patterns = [
        structure.pattern if structure.block_size is None else structure.block_pattern
        for structure in (a, b)
    ]
    if None in patterns or (a.block_size is None and b.block_size is None):
        return None
    return "causal" if "causal" in patterns else "everything"


def _intersect_valid(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    if a.shape[1] != b.shape[1] or (a.shape[0] != b.shape[0] and 1 not in (a.shape[0], b.shape[0])):
        raise UserError(
            f"two masks of different sizes are combined: {tuple(a.shape)} and {tuple(b.shape)} "
            "(rows, positions)",
            topic="mask",
            hint="Give both the rows and positions of the batch.",
        )
    return a & b


def _tighter(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _looser(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)
