"""Masks say which query may attend to which key: predicates that compose with & | ~.

True = may attend. A predicate sees index tensors b (batch), h (head), i (query), j (key) that
broadcast against each other, i and j being absolute places in the row, and answers with a boolean
tensor. Masks stay predicates until they are written out, so a rule that does not depend on the
batch costs no batch.

What is known about a mask's whole shape travels with it and only speeds things up: `attend` gives
the same answer without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.masks.drawing import draw_svg, draw_text
from regard.attention.masks.structure import NO_STRUCTURE, UNBOUNDED, Band, MaskStructure
from regard.attention.masks.tables import (
    TableSize,
    check_flags,
    check_lengths,
    check_number,
    check_numbers,
    look_up,
    rows_of,
)
from regard.core.catalog import Catalog

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
MASKS = Catalog("mask", home="regard.attention.masks.mask")


@dataclass(frozen=True)
class Grid:
    """Places of queries and keys as index tensors that broadcast to (b,h,i,j)."""

    b: Tensor
    h: Tensor
    i: Tensor
    j: Tensor
    from_start: bool = False
    "Queries and keys are the same places, from 0 on."
    last_alone: bool = False
    "There is one query, and it stands at the last key."

    @classmethod
    def over(
        cls,
        *,
        queries: int,
        keys: int,
        batch: int = 1,
        heads: int = 1,
        first_query: int = 0,
        device: torch.device | None = None,
    ) -> Grid:
        def index(first: int, count: int, dimension: int) -> Tensor:
            shape = [1, 1, 1, 1]
            shape[dimension] = count
            return torch.arange(first, first + count, device=device).view(shape)

        return cls(
            index(0, batch, 0),
            index(0, heads, 1),
            index(first_query, queries, 2),
            index(0, keys, 3),
            from_start=first_query == 0 and queries == keys,
            last_alone=queries == 1 and first_query + 1 == keys,
        )

    def part(self, queries: slice, keys: slice) -> Grid:
        return replace(
            self, i=self.i[:, :, queries], j=self.j[..., keys], from_start=False, last_alone=False
        )


@dataclass(frozen=True)
class Mask:
    """Which (query, key) pairs may attend: True = may attend."""

    allowed: Predicate
    name: str
    structure: MaskStructure = NO_STRUCTURE
    parts: frozenset[str] = frozenset({"composed"})
    "The named masks it is the meeting of: a kind of attention declares which it can follow."
    sizes: tuple[TableSize, ...] = ()
    "Of the tables that it or its parts look things up in."

    def __and__(self, other: Mask) -> Mask:
        if self.is_everything:
            return other
        if other.is_everything or self is other:
            return self
        return Mask(
            lambda b, h, i, j: self.allowed(b, h, i, j) & other.allowed(b, h, i, j),
            f"({self.name} & {other.name})",
            self.structure.both(other.structure),
            self.parts | other.parts,
            self.sizes + other.sizes,
        )

    def __or__(self, other: Mask) -> Mask:
        return Mask(
            lambda b, h, i, j: self.allowed(b, h, i, j) | other.allowed(b, h, i, j),
            f"({self.name} | {other.name})",
            self.structure.either(other.structure),
            sizes=self.sizes + other.sizes,
        )

    def __invert__(self) -> Mask:
        return Mask(lambda b, h, i, j: ~self.allowed(b, h, i, j), f"~{self.name}", sizes=self.sizes)

    def behind(self, virtual: int) -> Mask:
        """The same over rows with `virtual` places in front, which every query may see.

        Where each place sees all, or all its past, so do these. Under any other mask they see each
        other alone: otherwise they would carry on what the mask keeps apart."""
        structure = self.structure
        if not virtual:
            return self
        if structure.pattern is not None:
            whole = causal() if structure.pattern == "causal" else bidirectional()
            if structure.valid is not None:
                whole = whole & padding(F.pad(structure.valid, (virtual, 0), value=True))
            return replace(whole, name=self.name, parts=self.parts)
        past = structure.band.ahead == 0

        def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            tokens = self.allowed(b, h, (i - virtual).clamp(min=0), (j - virtual).clamp(min=0))
            among = (j < virtual) & (j <= i) if past else j < virtual
            return among | ((i >= virtual) & (j >= virtual) & tokens)

        return Mask(
            allowed,
            f"{self.name} behind {virtual}",
            MaskStructure(band=Band(ahead=0) if past else UNBOUNDED),
            self.parts,
            tuple(
                size._replace(positions=size.positions and size.positions + virtual)
                for size in self.sizes
            ),
        )

    @property
    def is_everything(self) -> bool:
        return self.structure.pattern == "everything" and self.structure.valid is None

    @property
    def is_causal(self) -> bool:
        return self.structure.pattern == "causal" and self.structure.valid is None

    def check_fits(self, *, rows: int, keys: int, positions: int) -> None:
        """Refuse tables that speak of other rows than these; `positions` are queries and keys."""
        for size in self.sizes:
            size.check(rows=rows, positions=keys if size.of_keys else positions)

    def on(self, grid: Grid) -> Tensor:
        """The mask written out, (b,h,i,j); dimensions it does not depend on have size 1."""
        allowed = self.allowed(grid.b, grid.h, grid.i, grid.j)
        # A predicate that ignores i or j still has to fill the last two dimensions.
        return allowed.expand(*allowed.shape[:2], grid.i.shape[2], grid.j.shape[3])

    def dense(
        self,
        queries: int,
        keys: int,
        *,
        batch: int = 1,
        heads: int = 1,
        first_query: int = 0,
        device: torch.device | None = None,
    ) -> Tensor:
        """The mask over whole rows, (b,h,i,j)."""
        grid = Grid.over(
            queries=queries,
            keys=keys,
            batch=batch,
            heads=heads,
            first_query=first_query,
            device=device,
        )
        return self.on(grid)

    def draw(
        self, queries: int, keys: int | None = None, labels: Sequence[str] | None = None
    ) -> str:
        """A small table for the terminal, one row a query: ■ may attend, · may not."""
        return draw_text(self, queries, keys, labels)

    def picture(
        self, queries: int, keys: int | None = None, labels: Sequence[str] | None = None
    ) -> str:
        """The same as an SVG that stands on its own."""
        return draw_svg(self, queries, keys, labels)


@MASKS.add("causal", needs="nothing")
def causal() -> Mask:
    """Each query sees its own place and those before it."""
    structure = MaskStructure("causal", band=Band(ahead=0))
    return Mask(lambda b, h, i, j: j <= i, "causal", structure, frozenset({"causal"}))


@MASKS.add("bidirectional", needs="nothing")
def bidirectional() -> Mask:
    """Every query sees every key."""
    return Mask(
        lambda b, h, i, j: torch.ones_like(i + j, dtype=torch.bool),
        "bidirectional",
        MaskStructure("everything"),
        frozenset({"bidirectional"}),
    )


@MASKS.add("padding", needs="which places hold a token")
def padding(valid: Tensor) -> Mask:
    """Keys that hold a token may be seen; `valid` is (b, j), True = a token, False = padding."""
    return _of_keys(valid, "padding")


@MASKS.add("prefix", needs="how long the first part is")
def prefix(lengths: Tensor) -> Mask:
    """Sequence-to-sequence: the first `lengths[b]` places see each other, the rest their past."""
    check_lengths(lengths, "prefix")

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        length = rows_of(lengths, b, "prefix")
        return (j < length) | ((j <= i) & (i >= length))

    size = TableSize("prefix", lengths.shape[0])
    return Mask(allowed, "prefix", parts=frozenset({"prefix"}), sizes=(size,))


@MASKS.add("lookback", needs="how many places")
def lookback(positions: int) -> Mask:
    """Keys at most `positions` before the query, and none after: lookback(0) sees itself alone."""
    check_number(positions, "lookback", least=0, owed="a query can look back 0 places or more")
    return Mask(
        lambda b, h, i, j: (j <= i) & (i - j <= positions),
        f"lookback({positions})",
        MaskStructure(band=Band(back=positions, ahead=0)),
        frozenset({"lookback"}),
    )


@MASKS.add("same-block", needs="how many places a block has")
def same_block(positions: int) -> Mask:
    """Rows are cut into blocks of `positions`; each block sees itself alone."""
    check_number(positions, "same_block", least=1, owed="a block has 1 place or more")
    return Mask(
        lambda b, h, i, j: i // positions == j // positions,
        f"same-block({positions})",
        MaskStructure(
            band=Band(positions - 1, positions - 1), block=positions, inside="everything"
        ),
        frozenset({"same-block"}),
    )


@MASKS.add("same-group", needs="a group number for each place")
def same_group(groups: Tensor) -> Mask:
    """Places with the same group number see each other; `groups` is (b, i)."""
    return _same(groups, "same-group")


@MASKS.add("same-document", needs="a document number for each place")
def same_document(documents: Tensor) -> Mask:
    """Places of one document in a packed row see each other; `documents` is (b, i)."""
    return _same(documents, "same-document")


@MASKS.add("cross", needs="which places of the source hold a token")
def cross(memory_valid: Tensor) -> Mask:
    """From a target to its source: every query sees every real source place; (b, j)."""
    return _of_keys(memory_valid, "cross")


def _of_keys(valid: Tensor, name: str) -> Mask:
    check_flags(valid, name)
    return Mask(
        lambda b, h, i, j: look_up(valid, b, j, name),
        name,
        MaskStructure("everything", valid),
        frozenset({name}),
        (TableSize(name, valid.shape[0], valid.shape[1], of_keys=True),),
    )


def _same(numbers: Tensor, name: str) -> Mask:
    check_numbers(numbers, name)

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return look_up(numbers, b, i, name) == look_up(numbers, b, j, name)

    return Mask(allowed, name, parts=frozenset({name}), sizes=(TableSize(name, *numbers.shape),))
