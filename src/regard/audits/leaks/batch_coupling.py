"""Batch coupling: outputs of a row that depend on the other rows of its batch, or on their number.

Scores of such a model are scores of a batch, and predictions cannot be repeated. Other rows are
replaced by random ones and by rows of one token alone, and a gradient is taken to them; also with
structural values, where the model's own weights may conceal the coupling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from regard.audits.findings import Finding
from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.modes import CACHE, EVALUATION, TRAINING, WEIGHTS, structural_modes
from regard.audits.forward.opening import fewest_that_open
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
COUPLED = "a row's outputs depend on the other rows of its batch"
ALONE = "a row alone gives other outputs than the same row in a batch"

Measure = Callable[[ForwardMode], Tensor]


def is_coupled(mode: ForwardMode, rows: Tensor) -> bool:
    """A quick look, without telling influence from rounding: isolated rows are only slower."""
    for kept in (0, 1):
        beside = mode.subject.draw_other(rows, torch.Generator().manual_seed(1))
        beside[kept] = rows[kept]
        if bool((mode.outputs(rows)[kept] != mode.outputs(beside)[kept]).any()):
            return True
        if mode.subject.embedding and bool(_gradient(mode, rows=rows, kept=kept).any()):
            return True
    return False


def find_batch_coupling(
    modes: dict[str, ForwardMode], notes: Notes, *, seed: int = 0
) -> list[Finding]:
    """The first coupling in each mode; with structural values only where none shows without."""
    subject = modes[EVALUATION].subject
    length = LENGTH if subject.sample is None else subject.sample.shape[1]
    length = min(length, subject.max_length or length)
    generator = torch.Generator().manual_seed(seed)
    rows = subject.draw(ROWS, length, generator)
    usual = [modes[name] for name in (EVALUATION, TRAINING, WEIGHTS, CACHE) if name in modes]
    found = [finding for mode in usual if (finding := _coupling(mode, rows, notes))]
    if found:
        return found
    for mode in structural_modes(modes[EVALUATION]):
        if finding := _coupling(mode, rows, notes):
            return [_hidden(mode, rows, finding)]
    return []


def _coupling(mode: ForwardMode, rows: Tensor, notes: Notes) -> Finding | None:
    try:
        if problem := why_incomparable(mode, rows[:1]):
            raise ForwardError(problem)
        for text, measure, floor in _measures(mode, rows):
            influence = recheck_in_float64(
                measure(mode), measure, mode=mode, notes=notes, floor=floor
            )
            if influence.doubt:
                raise ForwardError(influence.doubt)
            if bool(influence.sizes.any()):
                text = influence.describe(f"{text} in {mode.name}")
                return Finding(f"batch, {mode.name}", text, float(influence.sizes.max()))
    except ForwardError as problem:
        notes.add_unchecked(f"batch, {mode.name}: {problem}")
        return None
    notes.add_checked(f"batch, {mode.name}")
    return None


def _measures(mode: ForwardMode, rows: Tensor) -> Iterator[tuple[str, Measure, float]]:
    """What shows a coupling, and below what it is rounding."""
    generator = torch.Generator().manual_seed(1)
    subject, length = mode.subject, rows.shape[1]
    one_token = repeated_row(subject, length, 1, generator).to(rows).expand_as(rows)
    for kept in (0, len(rows) - 1):  # rows may see only those before them
        for others in (subject.draw_other(rows, generator), one_token):
            beside = others.clone()
            beside[kept] = rows[kept]
            yield COUPLED, partial(_change, rows=rows, beside=beside, kept=kept), VALUE_FLOOR
        if subject.embedding or subject.width:
            floor = FLOAT64_FLOOR if mode.dtype == torch.float64 else 0.0
            yield COUPLED, partial(_gradient, rows=rows, kept=kept), floor
    # Another number of rows rounds differently, and random draws are others.
    if not mode.training:
        yield ALONE, partial(_change, rows=rows, beside=rows[:1], kept=0), VALUE_FLOOR


def _change(mode: ForwardMode, *, rows: Tensor, beside: Tensor, kept: int) -> Tensor:
    before, after = mode.outputs(rows), mode.outputs(beside)
    return relative_change(before[kept : kept + 1], after[kept : kept + 1])


def _gradient(mode: ForwardMode, *, rows: Tensor, kept: int) -> Tensor:
    """Of one row's outputs to all other rows, relative to its own largest."""
    coefficients = torch.zeros(rows.shape[:2])
    coefficients[kept] = 0.5 + torch.arange(rows.shape[1]).float().cos().square()
    try:
        sizes = mode.gradients(rows, coefficients)
    except ForwardError:  # without a gradient there is what replaced rows show
        return torch.zeros(1)
    largest = sizes[kept].max().clamp(min=1e-300)
    sizes[kept] = 0
    return (sizes / largest).nan_to_num(0.0)


def _hidden(mode: ForwardMode, rows: Tensor, finding: Finding) -> Finding:
    """The finding, with what has to train before it shows."""

    def opens(part: ForwardMode) -> bool:
        return _coupling(part, rows, Notes()) is not None

    names = fewest_that_open(mode, opens)
    verb = "trains" if len(names) == 1 else "train"
    hidden = f"hidden at these weights: opens when {' and '.join(names)} {verb}"
    return replace(finding, text=f"{finding.text}, {hidden}")
