"""Batch coupling: outputs of a row that depend on the other rows of its batch, or on their number.

Scores of such a model are scores of a batch, and predictions cannot be repeated. Other rows are
replaced by random ones, by rows of one token alone and by copies that end otherwise, a gradient is
taken to them, and rows are permuted; also with structural values, where the model's own
weights may conceal the coupling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import TypeAlias

import torch
from torch import Tensor

from regard.audits.findings import Finding
from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.modes import CACHE, EVALUATION, TRAINING, WEIGHTS, structural_modes
from regard.audits.forward.opening import tensors_that_open
from regard.audits.forward.precision import (
    FLOAT64_FLOOR,
    VALUE_FLOOR,
    recheck_in_float64,
    relative_change,
    why_incomparable,
)
from regard.audits.leaks.rows import repeated_row
from regard.audits.notes import Notes

LENGTH = 12
ROWS = 5
MANY_ROWS = 16
"In evaluation mode: what depends on the others may depend on how many there are."
COUPLED = "a row's outputs depend on the other rows of its batch"
ALONE = "a row alone gives other outputs than the same row in a batch"
MOVED = "a row's outputs depend on its index in the batch"

Outputs: TypeAlias = Callable[[ForwardMode], Tensor]
"A mode's outputs for the rows as they are."
Measure: TypeAlias = Callable[..., Tensor]
"(mode, outputs) -> influences"


def is_coupled(mode: ForwardMode, rows: Tensor) -> bool:
    """A first check that counts rounding as influence: isolated rows are only slower."""
    before = mode.outputs(rows)
    for kept in (0, -1):
        beside = _beside(mode, rows, kept, torch.Generator().manual_seed(1))
        if not torch.equal(before[kept], mode.outputs(beside)[kept]):
            return True
    if mode.name in (WEIGHTS, CACHE) or not (mode.subject.embedding or mode.subject.width):
        return False
    return bool(_gradient(mode, lambda mode: mode.outputs(rows), rows=rows).any())


def find_batch_coupling(
    modes: dict[str, ForwardMode], notes: Notes, *, seed: int = 0
) -> list[Finding]:
    """The first coupling in each mode; with structural values only where none shows without."""
    subject = modes[EVALUATION].subject
    length = LENGTH if subject.sample is None else subject.sample.shape[1]
    generator = torch.Generator().manual_seed(seed)
    many = subject.draw(MANY_ROWS, min(length, subject.max_length or length), generator)
    rows = many[:ROWS]
    usual = [modes[name] for name in (EVALUATION, TRAINING, WEIGHTS, CACHE) if name in modes]
    found = [
        finding
        for mode in usual
        if (finding := _coupling(mode, many if mode.name == EVALUATION else rows, notes))
    ]
    if found:
        return found
    for mode in structural_modes(modes[EVALUATION], brief=True):
        if finding := _coupling(mode, rows, notes):
            return [_hidden(mode, rows, finding)]
    return []


def _coupling(mode: ForwardMode, rows: Tensor, notes: Notes) -> Finding | None:
    def outputs(mode: ForwardMode) -> Tensor:
        return mode.outputs(rows)

    try:
        before = cache(outputs)
        # With structural values nothing is as random as it was without, but it may overflow.
        hidden = mode.replacement is not None
        if hidden and not bool(torch.isfinite(before(mode)).all()):
            raise ForwardError("the outputs are not finite")
        exact = hidden or torch.equal(before(mode), outputs(mode))
        if not exact and (problem := why_incomparable(mode, rows[:1])):
            raise ForwardError(problem)
        for text, measure, floor in _measures(mode, rows):
            again = partial(measure, outputs=outputs)
            influence = recheck_in_float64(
                measure(mode, before), again, mode=mode, notes=notes, floor=floor
            )
            if influence.doubt:
                raise ForwardError(influence.doubt)
            if bool(influence.sizes.any()):
                text = influence.describe(f"{text} in {mode.name}")
                return Finding(f"batch, {mode.name}", text, float(influence.sizes.max()))
    except ForwardError as error:
        notes.add_unchecked(f"batch, {mode.name}: {error}")
        return None
    notes.add_checked(f"batch, {mode.name}")
    return None


def _measures(mode: ForwardMode, rows: Tensor) -> Iterator[tuple[str, Measure, float]]:
    """What shows a coupling, and below what it is rounding."""
    generator = torch.Generator().manual_seed(1)
    for kept in (0, len(rows) - 1):  # rows may see only those before them
        beside = _beside(mode, rows, kept, generator)
        yield COUPLED, partial(_change, beside=beside, kept=kept), VALUE_FLOOR
    if (mode.subject.embedding or mode.subject.width) and mode.name not in (WEIGHTS, CACHE):
        floor = FLOAT64_FLOOR if mode.dtype == torch.float64 else 0.0
        yield COUPLED, partial(_gradient, rows=rows), floor
    # Another number of rows rounds differently, and random draws are others.
    if not mode.training and mode.name not in (WEIGHTS, CACHE):
        yield ALONE, partial(_change, beside=rows[:1], kept=0), VALUE_FLOOR
        yield MOVED, partial(_change_of_index, rows=rows), VALUE_FLOOR


def _beside(mode: ForwardMode, rows: Tensor, kept: int, generator: torch.Generator) -> Tensor:
    """The rows, all others than `kept` replaced: by one token repeated, by a copy of `kept` with
    another end, and by random ones."""
    beside = mode.subject.draw_other(rows, generator)
    if len(rows) > 3:
        beside[1] = repeated_row(mode.subject, rows.shape[1], 1, generator)[0]
        beside[2, :-1] = rows[kept, :-1]
    beside[kept] = rows[kept]
    return beside


def _change(mode: ForwardMode, outputs: Outputs, *, beside: Tensor, kept: int) -> Tensor:
    before, after = outputs(mode), mode.outputs(beside)
    return relative_change(before[kept : kept + 1], after[kept : kept + 1])


def _change_of_index(mode: ForwardMode, outputs: Outputs, *, rows: Tensor) -> Tensor:
    return relative_change(outputs(mode).roll(1, dims=0), mode.outputs(rows.roll(1, dims=0)))


def _gradient(mode: ForwardMode, outputs: Outputs, *, rows: Tensor) -> Tensor:
    """Of the outer rows' outputs to the rows between, relative to their own largest."""
    coefficients = torch.zeros(rows.shape[:2])
    coefficients[[0, -1]] = 0.5 + torch.arange(rows.shape[1]).float().cos().square()
    try:
        sizes = mode.gradients(rows, coefficients)
    except ForwardError:  # without a gradient there is what replaced rows show
        return torch.zeros(1)
    return (sizes[1:-1] / sizes[[0, -1]].max().clamp(min=1e-300)).nan_to_num(0.0)


def _hidden(mode: ForwardMode, rows: Tensor, finding: Finding) -> Finding:
    """The finding, with what has to train before it shows."""

    def opens(part: ForwardMode) -> bool:
        return _coupling(part, rows, Notes()) is not None

    names = tensors_that_open(mode, opens)
    verb = "trains" if len(names) == 1 else "train"
    hidden = f"hidden at these weights: opens when {' and '.join(names)} {verb}"
    return replace(finding, text=f"{finding.text}, {hidden}")
