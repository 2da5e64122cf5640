"""Influence or rounding? What float32 shows is measured again in float64.

A true influence keeps its size; rounding noise falls by about 2⁻²⁹ ≈ 2e-9. An influence is real
when float64 still shows more than 1e-5 of the largest that float32 showed among forbidden pairs
(of 1e-4 where that is larger: beside a large leak small ones count as well).

What float32 shows far above its rounding error and float64 does not show is not rounding either:
the model computes something else in float32, where it is used. It counts, and is reported as an
influence in float32 only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.noise import DrawLog, why_noiseless
from regard.audits.notes import Notes

RELATIVE_THRESHOLD = 1e-5
LARGE_INFLUENCE = 1e-4
FLOAT32_THRESHOLD = 1e-4
"Where the model does not run in float64."
VALUE_FLOOR = 1e-9
"Relative to the outputs: below this an ill-conditioned model rounds in float64 too."
FLOAT64_FLOOR = 1e-11
"Of relative gradients, where the model is in float64 already."
ABOVE_ROUNDING = 1e4
"In units of the dtype's eps: 1.2e-3 of the outputs' RMS in float32."
MAX_ROUNDING = 0.5
MIN_FRACTION = 0.05
"Of all nonzero changes: a discrete choice flipped by rounding changes much, but rarely."

Measure = Callable[[ForwardMode], Tensor]


@dataclass(frozen=True)
class Influence:
    """The influences that remain after the float64 re-check."""

    sizes: Tensor
    "0 where there is none."
    only_in: str = ""
    "The dtype that alone shows it, such as float32; empty where float64 shows it too."
    doubt: str = ""
    "Why what one dtype alone showed is clearly neither influence nor rounding."

    def describe(self, how: str) -> str:
        return f"{how}, in {self.only_in} only" if self.only_in else how


def recheck_in_float64(
    first: Tensor, measure: Measure, *, mode: ForwardMode, notes: Notes, floor: float = VALUE_FLOOR
) -> Influence:
    """The influences that remain; `first` is the result of `measure(mode)`."""
    largest = float(first.max()) if first.numel() else 0.0
    if largest == 0.0:
        return Influence(first)
    try:
        draws = DrawLog()
        second = measure(replace(mode, float64=True, draws=draws if mode.training else None))
        if draws.varies and not mode.noiseless:
            notes.add_unchecked(why_noiseless(mode.name))
            quiet = replace(mode, noiseless=True)
            return recheck_in_float64(measure(quiet), measure, mode=quiet, notes=notes, floor=floor)
        if not bool(torch.isfinite(second).all()) and bool(torch.isfinite(first).all()):
            raise ForwardError("it returns values that are not finite")
    except ForwardError as problem:
        notes.add_unchecked(
            f"float64 re-check, {mode.name}: {problem}; changes below {FLOAT32_THRESHOLD:g} "
            "of the outputs' RMS count as rounding"
        )
        return Influence(torch.where(first > FLOAT32_THRESHOLD, first, 0.0))
    threshold = max(RELATIVE_THRESHOLD * min(largest, LARGE_INFLUENCE), floor)
    remaining = torch.where(second > threshold, second, 0.0)
    return Influence(remaining) if bool(remaining.any()) else _in_own_dtype(first, measure, mode)


def _in_own_dtype(first: Tensor, measure: Measure, mode: ForwardMode) -> Influence:
    """What the model's own dtype shows and float64 does not."""
    none = torch.zeros_like(first)
    dtype = str(mode.dtype).removeprefix("torch.")
    large = first > min(MAX_ROUNDING, ABOVE_ROUNDING * torch.finfo(mode.dtype).eps)
    if not bool(large.any()):
        return Influence(none)
    shows = f"{dtype} shows an influence of {float(first.max()):.2g} that float64 does not"
    if not torch.equal(measure(mode) > 0, first > 0):
        return Influence(none, doubt=f"{shows}, and not in every run")
    if int(large.sum()) < MIN_FRACTION * int((first > 0).sum()):
        return Influence(none, doubt=f"{shows}, but rarely, as a choice that rounding flips")
    return Influence(torch.where(large, first, 0.0), only_in=dtype)


def relative_change(before: Tensor, after: Tensor) -> Tensor:
    """Largest change at each position, relative to the RMS of all outputs: (b,t,f) -> (b,t)."""
    moved = torch.where(before == after, 0.0, after - before).abs().amax(dim=-1)
    return (moved / rms(before)).nan_to_num(nan=torch.inf, posinf=torch.inf).double().cpu()


def rms(outputs: Tensor) -> float:
    """Root mean square of the finite outputs; 1 where all are zero."""
    finite = torch.where(torch.isfinite(outputs), outputs, 0.0)
    return float(finite.double().square().mean().sqrt()) or 1.0


def why_incomparable(mode: ForwardMode, base: Tensor) -> str:
    """Why outputs of this mode cannot be compared (NaN, nondeterminism); empty where they can."""
    rows = base.expand(2, *base.shape[1:]).contiguous()
    first, second = mode.outputs(rows), mode.outputs(rows)
    if bool(torch.isnan(first).any()):
        return "the outputs hold NaN, so nothing can be compared"
    if float(relative_change(first, second).max()) > 1e3 * torch.finfo(first.dtype).eps:
        return "two identical seeded runs give different outputs, so nothing can be compared"
    return ""
