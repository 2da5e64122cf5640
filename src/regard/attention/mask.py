"""Masks say which query may attend to which key: predicates that compose with & | ~.

True = may attend. A predicate sees index tensors b (batch), h (head), i (query), j (key) that
broadcast against each other, i and j being absolute places in the sequence, and answers with a
boolean tensor. Masks stay predicates until `dense` writes one out, so a rule that does not depend
on the batch costs no batch.

A mask may carry a hint about its whole shape. A hint only speeds things up: `attend` gives the
same answer without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.errors import UserError

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Hint = Literal["everything", "causal"] | None


@dataclass(frozen=True)
class Mask:
    """Which (query, key) pairs may attend: True = may attend."""

    allowed: Predicate
    name: str
    hint: Hint = None

    def __and__(self, other: Mask) -> Mask:
        if self.hint == "everything":
            return other
        if other.hint == "everything" or (self.hint == other.hint == "causal"):
            return self
        return Mask(
            lambda b, h, i, j: self.allowed(b, h, i, j) & other.allowed(b, h, i, j),
            f"({self.name} & {other.name})",
        )

    def __or__(self, other: Mask) -> Mask:
        return Mask(
            lambda b, h, i, j: self.allowed(b, h, i, j) | other.allowed(b, h, i, j),
            f"({self.name} | {other.name})",
            hint="everything" if "everything" in (self.hint, other.hint) else None,
        )

    def __invert__(self) -> Mask:
        return Mask(lambda b, h, i, j: ~self.allowed(b, h, i, j), f"~{self.name}")

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
        """The mask written out, (b,h,i,j); dimensions it does not depend on have size 1."""
        b = torch.arange(batch, device=device).view(-1, 1, 1, 1)
        h = torch.arange(heads, device=device).view(1, -1, 1, 1)
        i = torch.arange(first_query, first_query + queries, device=device).view(1, 1, -1, 1)
        j = torch.arange(keys, device=device).view(1, 1, 1, -1)
        allowed = self.allowed(b, h, i, j)
        # A predicate that ignores i or j still has to fill the last two dimensions.
        return allowed.expand(*allowed.shape[:2], queries, keys)

    def draw(self, queries: int, keys: int | None = None) -> str:
        """A small picture, one row a query: ■ may attend, · may not."""
        table = self.dense(queries, keys or queries)[0, 0]
        return "\n".join(" ".join("■" if cell else "·" for cell in row) for row in table.tolist())


def causal() -> Mask:
    """Each query sees its own place and those before it."""
    return Mask(lambda b, h, i, j: j <= i, "causal", hint="causal")


def bidirectional() -> Mask:
    """Every query sees every key."""
    return Mask(
        lambda b, h, i, j: torch.ones_like(i + j, dtype=torch.bool),
        "bidirectional",
        hint="everything",
    )


def padding(valid: Tensor) -> Mask:
    """Keys that hold a token may be seen; `valid` is (b, j), True = a token, False = padding."""
    return Mask(lambda b, h, i, j: valid[b, j], "padding")


def prefix(lengths: Tensor) -> Mask:
    """Sequence-to-sequence: the first `lengths[b]` places see each other, the rest their past."""

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j < lengths[b]) | ((j <= i) & (i >= lengths[b]))

    return Mask(allowed, "prefix")


def lookback(places: int) -> Mask:
    """Keys at most `places` before the query, and none after: lookback(0) sees itself alone."""
    if places < 0:
        raise UserError(f"lookback({places}): a query can look back 0 places or more")
    return Mask(lambda b, h, i, j: (j <= i) & (i - j <= places), f"lookback({places})")


def same_group(groups: Tensor) -> Mask:
    """Places with the same group number see each other; `groups` is (b, i)."""
    return Mask(lambda b, h, i, j: groups[b, i] == groups[b, j], "same-group")


def same_document(documents: Tensor) -> Mask:
    """Places of one document in a packed row see each other; `documents` is (b, i)."""
    return Mask(same_group(documents).allowed, "same-document")


def cross(memory_valid: Tensor) -> Mask:
    """From a target to its source: every query sees every real source place; (b, j)."""
    return Mask(padding(memory_valid).allowed, "cross")
