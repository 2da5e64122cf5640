"""Telling influence from rounding: what float32 shows is measured once more in float64.

A true influence keeps its size; noise falls by about 2⁻²⁹ ≈ 2e-9. So an influence is real when
float64 still shows more than 1e-5 of the largest that float32 showed among forbidden pairs (or of
1e-4, where that is larger: in the company of a large leak small ones count as well).

What float32 shows far above its rounding and float64 does not is no rounding either: the model
computes something else in float32, where it is used. It stands, and is told as float32's alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardMode, RefusedError
from regard.audits.notes import Notes

KEPT = 1e-5
LARGE = 1e-4
WITHOUT_DOUBLE = 1e-4
VALUE_FLOOR = 1e-9
"Relative to the outputs: below this an ill-conditioned model rounds in float64 too."
ABOVE_ROUNDING = 1e4
"In units of the precision's own rounding: 1.2e-3 of the outputs' size in float32."
MOST_ROUNDING = 0.5
COMMON = 0.05
"Of what moved at all: rounding that flips a choice moves far, but seldom."

Measure = Callable[[ForwardMode], Tensor]


@dataclass(frozen=True)
class Influence:
    """What stands after the second look."""

    sizes: Tensor
    "0 where nothing stands."
    only_in: str = ""
    "The precision that alone shows it, such as float32; empty where float64 shows it too."
    doubt: str = ""
    "Why what one precision alone showed can be called neither influence nor rounding."

    def told(self, how: str) -> str:
        return f"{how}, in {self.only_in} only" if self.only_in else how


def second_look(
    first: Tensor, measure: Measure, *, view: ForwardMode, notes: Notes, floor: float = VALUE_FLOOR
) -> Influence:
    """The influences that stand; `first` is what `measure(view)` gave."""
    largest = float(first.max()) if first.numel() else 0.0
    if largest == 0.0:
        return Influence(first)
    try:
        second = measure(view.doubled())
        if not bool(torch.isfinite(second).all()) and bool(torch.isfinite(first).all()):
            raise RefusedError("it gives numbers that are not finite")
    except RefusedError as problem:
        notes.could_not(
            f"a second look in float64, {view.name}: {problem}; what is below {WITHOUT_DOUBLE:g} "
            "of the outputs' size counts as rounding"
        )
        return Influence(torch.where(first > WITHOUT_DOUBLE, first, 0.0))
    least = max(KEPT * min(largest, LARGE), floor)
    stands = torch.where(second > least, second, 0.0)
    return Influence(stands) if bool(stands.any()) else _of_one_precision(first, measure, view)


def _of_one_precision(first: Tensor, measure: Measure, view: ForwardMode) -> Influence:
    """What the model's own precision shows and float64 does not."""
    nothing = torch.zeros_like(first)
    precision = str(view.precision).removeprefix("torch.")
    large = first > min(MOST_ROUNDING, ABOVE_ROUNDING * torch.finfo(view.precision).eps)
    if not bool(large.any()):
        return Influence(nothing)
    shows = f"{precision} shows an influence of {float(first.max()):.2g} that float64 does not"
    if not torch.equal(measure(view) > 0, first > 0):
        return Influence(nothing, doubt=f"{shows}, and not each time")
    if int(large.sum()) < COMMON * int((first > 0).sum()):
        return Influence(nothing, doubt=f"{shows}, and seldom, as a choice that rounding flips")
    return Influence(torch.where(large, first, 0.0), only_in=precision)


def change(before: Tensor, after: Tensor) -> Tensor:
    """Largest change at each place, relative to the size of all outputs: (b,t,f) -> (b,t)."""
    moved = torch.where(before == after, 0.0, after - before).abs().amax(dim=-1)
    return (moved / size_of(before)).nan_to_num(nan=torch.inf, posinf=torch.inf).double().cpu()


def size_of(outputs: Tensor) -> float:
    """Root mean square of the finite outputs; 1 where all are zero."""
    finite = torch.where(torch.isfinite(outputs), outputs, 0.0)
    return float(finite.double().square().mean().sqrt()) or 1.0


def unsteady(view: ForwardMode, base: Tensor) -> str:
    """Why outputs of this view cannot be compared; empty where they can."""
    rows = base.expand(2, *base.shape[1:]).contiguous()
    once, again = view.outputs(rows), view.outputs(rows)
    if bool(torch.isnan(once).any()):
        return "the outputs hold NaN, so nothing can be compared"
    if float(change(once, again).max()) > 1e3 * torch.finfo(once.dtype).eps:
        return "two identical seeded runs give different outputs, so nothing can be compared"
    return ""
