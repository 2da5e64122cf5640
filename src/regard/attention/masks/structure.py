"""What is known about a mask without writing it out, and how that survives & and |.

It only speeds things up: whatever is known here is also what the mask's predicate says. Masks:
True = may attend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from regard.core.errors import UserError

Pattern = Literal["everything", "causal"]


class Band(NamedTuple):
    """No query sees further than this many places back and ahead; None = no bound."""

    back: int | None = None
    ahead: int | None = None


UNBOUNDED = Band()


@dataclass(frozen=True)
class MaskStructure:
    """What is known about a mask without writing it out."""

    pattern: Pattern | None = None
    "With a pattern the mask is exactly that pattern, on the keys that are `valid`."
    valid: Tensor | None = None
    "(b, j): keys that may be seen at all; only told beside a pattern."
    band: Band = UNBOUNDED
    "A bound: what is outside is forbidden."
    block: int | None = None
    "A bound: the row is cut into blocks of so many places, and none sees another."
    inside: Pattern | None = None
    "Beside a block: with a pattern the mask is exactly that pattern inside of each block."

    def both(self, other: MaskStructure) -> MaskStructure:
        """What is known of `a & b`."""
        pattern: Pattern | None = None
        if self.pattern and other.pattern:
            pattern = "causal" if "causal" in (self.pattern, other.pattern) else "everything"
        return MaskStructure(
            pattern,
            _both_valid(self.valid, other.valid) if pattern else None,
            Band(
                _nearer(self.band.back, other.band.back), _nearer(self.band.ahead, other.band.ahead)
            ),
            _nearer(self.block, other.block),
            _both_inside(self, other),
        )

    def either(self, other: MaskStructure) -> MaskStructure:
        """What is known of `a | b`."""
        for one in (self, other):
            if one.pattern == "everything" and one.valid is None:
                return one
        return MaskStructure(
            band=Band(
                _farther(self.band.back, other.band.back),
                _farther(self.band.ahead, other.band.ahead),
            ),
            block=self.block if self.block == other.block else None,
        )


NO_STRUCTURE = MaskStructure()


def _both_inside(a: MaskStructure, b: MaskStructure) -> Pattern | None:
    """Of blocks met by a pattern of the whole row, or by blocks of the same size."""
    if None not in (a.block, b.block) and a.block != b.block:
        return None
    if a.valid is not None or b.valid is not None:
        return None
    within = [
        structure.pattern if structure.block is None else structure.inside for structure in (a, b)
    ]
    if None in within or (a.block is None and b.block is None):
        return None
    return "causal" if "causal" in within else "everything"


def _both_valid(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    if a.shape[1] != b.shape[1] or (a.shape[0] != b.shape[0] and 1 not in (a.shape[0], b.shape[0])):
        raise UserError(
            f"two masks that speak of different rows meet: {tuple(a.shape)} and {tuple(b.shape)} "
            "(rows, places)",
            topic="mask",
            hint="Give both as many rows and places as the batch has.",
        )
    return a & b


def _nearer(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _farther(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)
