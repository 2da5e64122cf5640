"""Truncation: cut a row, and outputs that may not see what was cut off must stay as they were.

This finds what no change inside a row can show: a model that knows how long its row is (positions
counted from the end, a scale by the total length). Rows of another shape round differently, so a
second look is the rule here.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardMode, RefusedError
from regard.audits.forward.precision import change, second_look
from regard.audits.leaks.perturbation import Pairs
from regard.audits.leaks.search import LeakSearch

EVERY_CUT_UP_TO = 12


def leaks_by_truncation(search: LeakSearch, view: ForwardMode, base: Tensor) -> Pairs:
    """(query, first place cut off) -> how far the output at the query moved."""
    length = base.shape[1]
    free = {cut: search.permission.untouched_by_cut(length, kept=cut) for cut in _cuts(length)}
    free = {cut: places for cut, places in free.items() if bool(places.any())}
    if free and view.training and _draws(view, base):
        search.notes.could_not(f"{view.name}, rows cut short: dropout would draw otherwise")
        return {}
    whole, first = view.outputs(base), {}
    for cut, places in free.items():
        try:
            first[cut] = _moved(whole, view.outputs(base[:, :cut]), places)
        except RefusedError as problem:
            search.notes.could_not(f"{view.name}, cut to length {cut}: {problem}")
    if not first:
        return {}

    def measure(other: ForwardMode) -> Tensor:
        whole = other.outputs(base)
        return torch.stack(
            [_moved(whole, other.outputs(base[:, :cut]), free[cut]) for cut in first]
        )

    moved = torch.stack(list(first.values()))
    looked = second_look(moved, measure, view=view, notes=search.notes)
    stands, cuts = looked.sizes, list(first)
    search.notes.did(f"{view.name}, length {length}: cut to {', '.join(map(str, cuts))} places")
    if looked.doubt or looked.only_in:
        # No doubt: rows of another shape round otherwise, which clean models can enlarge at will.
        why = looked.doubt or f"{looked.only_in} alone gives other outputs, float64 the same"
        search.notes.could_not(f"{view.name}, length {length} cut short: {why}")
        return {}
    return {(i, cuts[row]): float(stands[row, i]) for row, i in stands.nonzero().tolist()}


def _moved(whole: Tensor, cut: Tensor, places: Tensor) -> Tensor:
    """How far each of the `places` moved, (t,), 0 at the others."""
    moved = torch.zeros(whole.shape[1], dtype=torch.float64)
    moved[: cut.shape[1]] = torch.where(places, change(whole[:, : cut.shape[1]], cut)[0], 0.0)
    return moved


def _cuts(length: int) -> list[int]:
    """Short rows are cut in several places, long ones in two."""
    if length > EVERY_CUT_UP_TO:
        return [length // 2, length - 1]
    return sorted({1, 2, length // 3, length // 2, length - 1} - {0})


def _draws(view: ForwardMode, base: Tensor) -> bool:
    """Whether the outputs hang on random numbers, which rows of another shape would change."""
    return bool((view.outputs(base) != replace(view, seed=view.seed + 1).outputs(base)).any())
