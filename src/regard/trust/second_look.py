"""Telling influence from rounding: what float32 shows is measured once more in float64.

A true influence keeps its size; noise falls by about 2⁻²⁹ ≈ 2e-9. So an influence is real when
float64 still shows more than 1e-5 of the largest that float32 showed among forbidden pairs (or of
1e-4, where that is larger: in the company of a large leak small ones count as well).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.trust.notes import Notes
from regard.trust.view import RefusedError, View

KEPT = 1e-5
LARGE = 1e-4
WITHOUT_DOUBLE = 1e-4
VALUE_FLOOR = 1e-9
"Relative to the outputs: below this an ill-conditioned model rounds in float64 too."

Measure = Callable[[View], Tensor]


def second_look(
    first: Tensor, measure: Measure, *, view: View, notes: Notes, floor: float = VALUE_FLOOR
) -> Tensor:
    """The influences that stand, 0 elsewhere; `first` is what `measure(view)` gave."""
    largest = float(first.max()) if first.numel() else 0.0
    if largest == 0.0:
        return first
    try:
        second = measure(view.doubled())
        if not bool(torch.isfinite(second).all()) and bool(torch.isfinite(first).all()):
            raise RefusedError("it gives numbers that are not finite")
    except RefusedError as problem:
        notes.could_not(
            f"a second look in float64, {view.name}: {problem}; what is below {WITHOUT_DOUBLE:g} "
            "of the outputs' size counts as rounding"
        )
        return torch.where(first > WITHOUT_DOUBLE, first, 0.0)
    least = max(KEPT * min(largest, LARGE), floor)
    return torch.where(second > least, second, 0.0)


def change(before: Tensor, after: Tensor) -> Tensor:
    """Largest change at each place, relative to the size of all outputs: (b,t,f) -> (b,t)."""
    moved = torch.where(before == after, 0.0, after - before).abs().amax(dim=-1)
    return (moved / size_of(before)).nan_to_num(nan=torch.inf, posinf=torch.inf).double().cpu()


def size_of(outputs: Tensor) -> float:
    """Root mean square of the finite outputs; 1 where all are zero."""
    finite = torch.where(torch.isfinite(outputs), outputs, 0.0)
    return float(finite.double().square().mean().sqrt()) or 1.0


def unsteady(view: View, base: Tensor) -> str:
    """Why outputs of this view cannot be compared; empty where they can."""
    rows = base.expand(2, *base.shape[1:]).contiguous()
    once, again = view.outputs(rows), view.outputs(rows)
    if bool(torch.isnan(once).any()):
        return "the outputs hold NaN, so nothing can be compared"
    if float(change(once, again).max()) > 1e3 * torch.finfo(once.dtype).eps:
        return "two identical seeded runs give different outputs, so nothing can be compared"
    return ""
