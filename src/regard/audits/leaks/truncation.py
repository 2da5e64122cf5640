"""Leaks by truncation: cut a row; outputs that may not depend on removed tokens must not change.

This finds what no change inside a row can show: a model that depends on the length of its row
(positions counted from the end, a scale by the total length). Inputs of another shape round
differently, so every change is re-checked in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.precision import recheck_in_float64, relative_change
from regard.audits.leaks.perturbation import PairInfluence
from regard.audits.leaks.search import LeakSearch

MAX_LENGTH_MANY_CUTS = 12


def leaks_by_truncation(
    search: LeakSearch, mode: ForwardMode, base: Tensor, *, cuts: Sequence[int] = ()
) -> PairInfluence:
    """(query, first removed position) -> relative change of the output at the query.

    `cuts` are the lengths that it is cut to; by default several.
    """
    length, permission = base.shape[1], search.permission
    unaffected = {
        cut: permission.unaffected_by_truncation(length, kept=cut) for cut in cuts or _cuts(length)
    }
    unaffected = {cut: positions for cut, positions in unaffected.items() if bool(positions.any())}
    if unaffected and mode.training and _is_random(mode, base):
        search.notes.add_unchecked(f"{mode.name}, truncated: dropout would draw another mask")
        return {}
    whole, first = mode.outputs(base), {}
    for cut, positions in unaffected.items():
        try:
            first[cut] = _change(whole, mode.outputs(base[:, :cut]), positions)
        except ForwardError as problem:
            search.notes.add_unchecked(f"{mode.name}, truncated to {cut}: {problem}")
    if not first:
        return {}

    def measure(other: ForwardMode) -> Tensor:
        whole = other.outputs(base)
        return torch.stack(
            [_change(whole, other.outputs(base[:, :cut]), unaffected[cut]) for cut in first]
        )

    change = torch.stack(list(first.values()))
    influence = recheck_in_float64(change, measure, mode=mode, notes=search.notes)
    sizes, lengths = influence.sizes, list(first)
    search.notes.add_checked(
        f"{mode.name}, length {length}: truncated to {', '.join(map(str, lengths))}"
    )
    if influence.doubt or influence.only_in:
        # Not a doubt: other shapes round differently, and a clean model can amplify that.
        why = influence.doubt or f"{influence.only_in} alone gives other outputs, float64 the same"
        search.notes.add_unchecked(f"{mode.name}, length {length} truncated: {why}")
        return {}
    return {(i, lengths[row]): float(sizes[row, i]) for row, i in sizes.nonzero().tolist()}


def _change(whole: Tensor, cut: Tensor, positions: Tensor) -> Tensor:
    """Relative change at each of the `positions`, (t,), 0 at the others."""
    change = torch.zeros(whole.shape[1], dtype=torch.float64)
    kept = cut.shape[1]
    change[:kept] = torch.where(positions, relative_change(whole[:, :kept], cut)[0], 0.0)
    return change


def _cuts(length: int) -> list[int]:
    """Several truncation lengths for short rows; for long ones the powers of two and one less than
    the row: together as long as two rows, and a length at which the model changes lies between."""
    if length > MAX_LENGTH_MANY_CUTS:
        powers = [2**n for n in range(3, length.bit_length()) if 2**n < length // 2]
        return [*powers, length // 2, length - 1]
    return sorted({1, 2, length // 3, length // 2, length - 1} - {0})


def _is_random(mode: ForwardMode, base: Tensor) -> bool:
    """Whether the outputs depend on random draws, which another shape would change."""
    return bool((mode.outputs(base) != replace(mode, seed=mode.seed + 1).outputs(base)).any())
