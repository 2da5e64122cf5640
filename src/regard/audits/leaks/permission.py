"""Which input may influence which output: a mask, and what follows from it through many layers.

In a deep model influence travels: i sees k and k sees j, so i may depend on j. With M the mask,

    reachable = I ∨ M ∨ M² ∨ …        (boolean products; I because a place keeps its own token)

and only pairs outside it are forbidden. For a causal mask that is every later token; a window of
the last n tokens grows to the whole past, so a depth-blind audit cannot hold a model to it.

Shapes: i query, j key, t places. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import UserError, did_you_mean

MaskAt = Callable[[int], Tensor]
NAMES = ("causal", "bidirectional", "prefix:N")


@dataclass(frozen=True)
class Permission:
    """A mask by length: `at(t)` is (t,t), True = may attend."""

    name: str
    at: MaskAt
    only_length: int | None = None
    "Set where the mask is a table of one size."

    def covers(self, places: int) -> bool:
        """Whether the mask can be written out at this length."""
        try:
            return self.at(places).shape == (places, places)
        except (IndexError, RuntimeError, ValueError, UserError):  # bound to rows of one size
            return False

    def reachable(self, places: int) -> Tensor:
        """(i,j): True where the output at i may depend on the input at j, over any depth."""
        reached = self.at(places).bool().cpu() | torch.eye(places, dtype=torch.bool)
        while True:
            further = (reached.float() @ reached.float()) > 0
            if torch.equal(further, reached):
                return reached
            reached = further

    def forbids(self, places: int) -> bool:
        """Whether some output may not depend on some input, over any depth."""
        return self.covers(places) and not bool(self.reachable(places).all())

    def widens(self, places: int) -> bool:
        """Whether several layers let through more than the mask itself."""
        itself = self.at(places).bool().cpu() | torch.eye(places, dtype=torch.bool)
        return not torch.equal(itself, self.reachable(places))

    def untouched_by_cut(self, places: int, *, kept: int) -> Tensor:
        """(i,): places whose output may not change when the row is cut to its first `kept`."""
        none = torch.zeros(kept, dtype=torch.bool)
        if self.only_length is not None or not self.covers(kept):
            return none
        if not torch.equal(self.at(places)[:kept, :kept].bool(), self.at(kept).bool()):
            return none
        return ~self.reachable(places)[:kept, kept:].any(dim=1)


def permission_of(mask: str | Tensor | MaskAt | Permission) -> Permission:
    """From a name ("causal", "bidirectional", "prefix:3"), a (t,t) table or a function of t."""
    if isinstance(mask, Permission):
        return mask
    if isinstance(mask, str):
        return Permission(mask, _named(mask))
    if isinstance(mask, Tensor):
        if mask.dim() != 2 or mask.shape[0] != mask.shape[1] or mask.dtype != torch.bool:
            raise UserError(
                f"a mask of shape {tuple(mask.shape)} and type {mask.dtype} is no (t,t) table of "
                "booleans",
                topic="audit",
                hint="Give one row a query, one column a key, True = may attend.",
            )
        table = mask.detach().cpu()
        return Permission(f"table {len(table)}×{len(table)}", lambda t: table, len(table))
    return Permission(getattr(mask, "__name__", "mask"), mask)


def _named(name: str) -> MaskAt:
    if name == "causal":
        return lambda t: torch.ones(t, t, dtype=torch.bool).tril()
    if name == "bidirectional":
        return lambda t: torch.ones(t, t, dtype=torch.bool)
    word, _, number = name.partition(":")
    if word == "prefix" and number.isdecimal():
        return lambda t: _prefix(t, int(number))
    raise UserError(
        f"unknown mask {name!r}{did_you_mean(name, NAMES)}",
        topic="audit",
        hint="prefix:5 means that the first 5 places see each other and the rest their past.",
    )


def _prefix(places: int, length: int) -> Tensor:
    i, j = torch.arange(places)[:, None], torch.arange(places)[None, :]
    return (j < length) | (j <= i)
