"""Masks: which query may attend to which key, as predicates that compose with & | ~.

True = may attend. A predicate takes index tensors b (batch), h (head), i (query), j (key) that
broadcast against each other, i and j being absolute positions in the row, and returns a boolean
tensor. A mask stays a predicate until it is materialised, so one that does not depend on the batch
has no batch dimension.

Causal mask, sliding window (local causal attention), padding, prefix LM, block-local, packed
documents and cross-attention are in the catalogue below. The structure of a mask travels with it
and only makes attention faster: without it `attend` gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.masks.drawing import DEFAULT_LENGTH, MAX_LENGTH, draw_svg, draw_text
from regard.attention.masks.structure import NO_STRUCTURE, UNBOUNDED, Band, MaskStructure
from regard.attention.masks.tables import Table, check_integer
from regard.core.catalog import Catalog
from regard.core.errors import UserError

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
MASKS = Catalog("mask", home="regard.attention.masks.mask")


@dataclass(frozen=True)
class Grid:
    """Positions of queries and keys as index tensors that broadcast to (b,h,i,j)."""

    b: Tensor
    h: Tensor
    i: Tensor
    j: Tensor
    queries: range | None = None
    "The positions i, where they are consecutive and the same in every row."
    keys: range | None = None
    "The positions j, likewise."
    from_start: bool = False
    "Queries and keys are the same positions, from 0 on: nothing is cached."
    is_decode_step: bool = False
    "There is one query, and its position is that of the last key."

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
        index = partial(torch.arange, device=device)
        return cls(
            index(batch).view(-1, 1, 1, 1),
            index(heads).view(1, -1, 1, 1),
            index(first_query, first_query + queries).view(1, 1, -1, 1),
            index(keys).view(1, 1, 1, -1),
            range(first_query, first_query + queries),
            range(keys),
            from_start=first_query == 0 and queries == keys,
            is_decode_step=queries == 1 and first_query + 1 == keys,
        )

    def crop(self, queries: slice, keys: slice) -> Grid:
        return replace(
            self,
            i=self.i[:, :, queries],
            j=self.j[..., keys],
            queries=None if self.queries is None else self.queries[queries],
            keys=None if self.keys is None else self.keys[keys],
            from_start=False,
            is_decode_step=False,
        )


@dataclass(frozen=True)
class Mask:
    """Which (query, key) pairs may attend: True = may attend."""

    allowed: Predicate
    name: str
    structure: MaskStructure = NO_STRUCTURE
    components: frozenset[str] = frozenset({"composed"})
    "Names of the masks that it is the intersection of: kinds declare which ones they support."
    tables: tuple[Table, ...] = ()
    "All tables that it looks values up in."

    def __and__(self, other: Mask) -> Mask:
        if not isinstance(other, Mask):
            return NotImplemented
        if self.is_everything:
            return other
        if other.is_everything or self is other:
            return self
        return Mask(
            lambda b, h, i, j: self.allowed(b, h, i, j) & other.allowed(b, h, i, j),
            f"({self.name} & {other.name})",
            self.structure.intersection(other.structure),
            self.components | other.components,
            self.tables + other.tables,
        )

    def __or__(self, other: Mask) -> Mask:
        if not isinstance(other, Mask):
            return NotImplemented
        return Mask(
            lambda b, h, i, j: self.allowed(b, h, i, j) | other.allowed(b, h, i, j),
            f"({self.name} | {other.name})",
            self.structure.union(other.structure),
            tables=self.tables + other.tables,
        )

    def __invert__(self) -> Mask:
        return Mask(
            lambda b, h, i, j: ~self.allowed(b, h, i, j),
            f"~{self.name}",
            tables=self.tables,
        )

    def with_virtual_tokens(self, count: int) -> Mask:
        """The mask of rows with `count` virtual tokens in front, which every query may attend to.

        Under a full or causal mask virtual tokens attend as other positions do. Under any other
        mask they attend to each other alone: otherwise they would pass on what the mask separates.
        """
        structure = self.structure
        if not count:
            return self
        if structure.pattern is not None:
            whole = causal() if structure.pattern == "causal" else bidirectional()
            if structure.valid is not None:
                whole = whole & padding(F.pad(structure.valid, (count, 0), value=True))
            return replace(whole, name=self.name, components=self.components)
        is_causal = structure.band.right == 0

        def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            tokens = self.allowed(b, h, (i - count).clamp(min=0), (j - count).clamp(min=0))
            virtual = (j < count) & (j <= i) if is_causal else j < count
            return virtual | ((i >= count) & (j >= count) & tokens)

        return Mask(
            allowed,
            f"{self.name} after {count} virtual tokens",
            MaskStructure(band=Band(right=0) if is_causal else UNBOUNDED),
            self.components,
            tuple(
                replace(table, virtual_tokens=table.virtual_tokens + count) for table in self.tables
            ),
        )

    @property
    def is_everything(self) -> bool:
        return self.structure.pattern == "everything" and self.structure.valid is None

    @property
    def is_causal(self) -> bool:
        return self.structure.pattern == "causal" and self.structure.valid is None

    def check_fits(self, *, rows: int, keys: int, positions: int) -> None:
        """Refuse tables of another size; `positions` covers queries and keys."""
        for table in self.tables:
            table.check_fits(rows=rows, positions=keys if table.keys_only else positions)

    def materialize(self, grid: Grid) -> Tensor:
        """The dense mask, (b,h,i,j); b and h have size 1 where it does not depend on them."""
        allowed = self.allowed(grid.b, grid.h, grid.i, grid.j)
        # A predicate that ignores i or j still fills the last two dimensions.
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
        """The dense mask over whole rows, (b,h,i,j)."""
        grid = Grid.over(
            queries=queries,
            keys=keys,
            batch=batch,
            heads=heads,
            first_query=first_query,
            device=device,
        )
        return self.materialize(grid)

    def draw(
        self, queries: int, keys: int | None = None, labels: Sequence[str] | None = None
    ) -> str:
        """The mask as text, one line per query: ■ may attend, · may not."""
        return draw_text(self, queries, keys, labels)

    def draw_svg(
        self, queries: int, keys: int | None = None, labels: Sequence[str] | None = None
    ) -> str:
        """The mask as a self-contained SVG."""
        return draw_svg(self, queries, keys, labels)

    def _repr_html_(self) -> str | None:
        """The drawing, for notebooks: as long as its tables, or of a few positions; None if a
        predicate of one's own cannot be drawn at that length."""
        lengths = {table.positions for table in self.tables if table.positions is not None}
        length = max(lengths, default=DEFAULT_LENGTH)
        if len(lengths) > 1 or not 0 < length <= MAX_LENGTH:
            return None
        try:
            return self.draw_svg(length)
        except (IndexError, RuntimeError, UserError):
            return None


@MASKS.add("causal", needs="nothing")
def causal() -> Mask:
    """Causal mask: each query attends to its own position and those before it."""
    structure = MaskStructure("causal", band=Band(right=0))
    return Mask(lambda b, h, i, j: j <= i, "causal", structure, frozenset({"causal"}))


@MASKS.add("bidirectional", needs="nothing")
def bidirectional() -> Mask:
    """Full attention: every query attends to every key."""
    return Mask(
        lambda b, h, i, j: torch.ones_like(i + j, dtype=torch.bool),
        "bidirectional",
        MaskStructure("everything"),
        frozenset({"bidirectional"}),
    )


@MASKS.add("padding", needs="which positions hold a token")
def padding(valid: Tensor) -> Mask:
    """Padding mask: only keys that hold a token; `valid` is (b, j), True = a token."""
    return _valid_keys(valid, "padding")


@MASKS.add("prefix", needs="the length of the prefix")
def prefix(lengths: Tensor) -> Mask:
    """Prefix LM: the first `lengths[b]` positions attend to each other, the rest causally."""
    table = Table.of_integers(lengths, "prefix", per_row=True)

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        length = table.at(b)
        return (j < length) | ((j <= i) & (i >= length))

    return Mask(allowed, "prefix", components=frozenset({"prefix"}), tables=(table,))


@MASKS.add("sliding-window", needs="the size of the window")
def sliding_window(size: int) -> Mask:
    """Sliding window: each query attends to the last `size` positions, its own included."""
    check_integer(size, "sliding_window", minimum=1, requirement="a window has 1 position or more")
    return Mask(
        lambda b, h, i, j: (j <= i) & (i - j < size),
        f"sliding-window({size})",
        MaskStructure(band=Band(left=size - 1, right=0)),
        frozenset({"sliding-window"}),
    )


@MASKS.add("same-block", needs="the size of a block")
def same_block(size: int) -> Mask:
    """Block-local attention: the row is cut into blocks of `size`, each attends to itself alone."""
    check_integer(size, "same_block", minimum=1, requirement="a block has 1 position or more")
    return Mask(
        lambda b, h, i, j: i // size == j // size,
        f"same-block({size})",
        MaskStructure(band=Band(size - 1, size - 1), block_size=size, block_pattern="everything"),
        frozenset({"same-block"}),
    )


@MASKS.add("same-group", needs="a group id for each position")
def same_group(groups: Tensor) -> Mask:
    """Positions with the same group id attend to each other; `groups` is (b, i)."""
    return _same_id(groups, "same-group")


@MASKS.add("same-document", needs="a document id for each position")
def same_document(documents: Tensor) -> Mask:
    """Positions of one document in a packed row attend to each other; `documents` is (b, i)."""
    return _same_id(documents, "same-document")


@MASKS.add("cross", needs="which source positions hold a token")
def cross(memory_valid: Tensor) -> Mask:
    """Cross-attention: every query attends to every source token; `memory_valid` is (b, j)."""
    return _valid_keys(memory_valid, "cross")


def _valid_keys(valid: Tensor, name: str) -> Mask:
    table = Table.of_bools(valid, name)
    return Mask(
        lambda b, h, i, j: table.at(b, j),
        name,
        MaskStructure("everything", valid),
        frozenset({name}),
        (table,),
    )


def _same_id(ids: Tensor, name: str) -> Mask:
    table = Table.of_integers(ids, name)
    return Mask(
        lambda b, h, i, j: table.at(b, i) == table.at(b, j),
        name,
        components=frozenset({name}),
        tables=(table,),
    )
