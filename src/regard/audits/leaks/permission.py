"""Which inputs may influence which outputs: a mask, and its closure over many layers.

In a deep model influence travels: i attends to k and k to j, so i may depend on j. With M the mask,

    reachable = I ∨ M ∨ M² ∨ …        (boolean products; I for the residual connection)

and only pairs outside it are forbidden. For a causal mask that is every later token; a sliding
window grows to the whole past, so an audit of outputs alone cannot test it.

Shapes: i query, j key, t positions. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import UserError, did_you_mean

MaskFunction = Callable[[int], Tensor]
"Length t -> (t,t) booleans, True = may attend."
NAMES = ("causal", "bidirectional", "prefix:N")


@dataclass(frozen=True)
class Permission:
    """A mask by length: `at(t)` is (t,t), True = may attend."""

    name: str
    at: MaskFunction
    only_length: int | None = None
    "Set where the mask is a table of one size."

    def covers(self, length: int) -> bool:
        """Whether the mask is defined at this length."""
        try:
            return self.at(length).shape == (length, length)
        except (IndexError, RuntimeError, ValueError, UserError):  # bound to rows of one size
            return False

    def reachable(self, length: int) -> Tensor:
        """(i,j): True where the output at i may depend on the input at j, at any depth."""
        reached = self.at(length).bool().cpu() | torch.eye(length, dtype=torch.bool)
        while True:
            further = (reached.float() @ reached.float()) > 0
            if torch.equal(further, reached):
                return reached
            reached = further

    def forbids(self, length: int) -> bool:
        """Whether some output may not depend on some input, at any depth."""
        return self.covers(length) and not bool(self.reachable(length).all())

    def grows_with_depth(self, length: int) -> bool:
        """Whether several layers allow more pairs than the mask itself."""
        itself = self.at(length).bool().cpu() | torch.eye(length, dtype=torch.bool)
        return not torch.equal(itself, self.reachable(length))

    def unaffected_by_truncation(self, length: int, *, kept: int) -> Tensor:
        """(i,): positions whose output must not change when the row is cut to its first `kept`."""
        none = torch.zeros(kept, dtype=torch.bool)
        if self.only_length is not None or not self.covers(kept):
            return none
        if not torch.equal(self.at(length)[:kept, :kept].bool(), self.at(kept).bool()):
            return none
        return ~self.reachable(length)[:kept, kept:].any(dim=1)


def through_layers(itself: Tensor, layers: int) -> Tensor:
    """(i,j): what `layers` layers of a mask with its diagonal see together."""
    together = torch.eye(len(itself), dtype=torch.bool)
    for _ in range(layers):
        together = (together.float() @ itself.float()) > 0
    return together


def build_permission(mask: str | Tensor | MaskFunction | Permission) -> Permission:
    """From a name ("causal", "bidirectional", "prefix:3"), a (t,t) table or a function of t."""
    if isinstance(mask, Permission):
        return mask
    if isinstance(mask, str):
        return Permission(mask, _named_mask(mask))
    if isinstance(mask, Tensor):
        if mask.dim() != 2 or mask.shape[0] != mask.shape[1] or mask.dtype != torch.bool:
            raise UserError(
                f"a mask of shape {tuple(mask.shape)} and dtype {mask.dtype} is no (t,t) table of "
                "booleans",
                topic="audit",
                hint="Give one row per query, one column per key, True = may attend.",
            )
        table = mask.detach().cpu()
        return Permission(f"table {len(table)}×{len(table)}", lambda t: table, len(table))
    return Permission(getattr(mask, "__name__", "mask"), mask)


def _named_mask(name: str) -> MaskFunction:
    if name == "causal":
        return lambda t: torch.ones(t, t, dtype=torch.bool).tril()
    if name == "bidirectional":
        return lambda t: torch.ones(t, t, dtype=torch.bool)
    word, _, number = name.partition(":")
    if word == "prefix" and number.isdecimal():
        return lambda t: _prefix_mask(t, int(number))
    raise UserError(
        f"unknown mask {name!r}{did_you_mean(name, NAMES)}",
        topic="audit",
        hint="prefix:5 lets the first 5 positions attend to each other and the rest be causal.",
    )


def _prefix_mask(length: int, prefix: int) -> Tensor:
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    return (j < prefix) | (j <= i)
