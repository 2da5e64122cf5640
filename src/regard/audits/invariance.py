"""What must not change outputs: padding, the rest of the batch, a cache, asking for weights.

These are findings, not leaks: a model may be causal and still read a row differently when it is
padded on the left (GPT-2 without position ids is).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardMode, RefusedError
from regard.audits.forward.modes import (
    CACHE,
    EVALUATION,
    PADDED,
    TRAINING,
    WEIGHTS,
    in_pieces,
    one_by_one,
    padded,
)
from regard.audits.forward.precision import change, second_look, unsteady
from regard.audits.notes import Notes
from regard.audits.subject import Subject

LENGTH = 12
ROWS = 3

Compared = Callable[[ForwardMode], Tensor]


@dataclass(frozen=True)
class Finding:
    """Outputs that changed with something they should not depend on."""

    check: str
    text: str
    size: float
    "Largest change, relative to the size of the outputs."


@dataclass(frozen=True)
class _Check:
    name: str
    view: ForwardMode
    measure: Compared
    text: str


def find_findings(ways: dict[str, ForwardMode], notes: Notes, *, seed: int = 0) -> list[Finding]:
    """Every invariance that can be tried and does not hold."""
    subject = ways[EVALUATION].subject
    sample = subject.sample
    places = LENGTH if sample is None else sample.shape[1]
    generator = torch.Generator().manual_seed(seed)
    if subject.longest is not None:
        places = min(places, max(1, subject.longest - 3))
    rows = subject.draw(ROWS, places, generator)
    other = subject.draw_other(rows, generator)
    found = []
    for check in _checks(ways, rows, other):
        try:
            if trouble := unsteady(check.view, rows[:1]):
                raise RefusedError(trouble)
            first = check.measure(check.view)
            stands = second_look(first, check.measure, view=check.view, notes=notes)
        except RefusedError as problem:
            notes.could_not(f"{check.name}: {problem}")
            continue
        if stands.doubt:
            notes.could_not(f"{check.name}: {stands.doubt}")
            continue
        notes.did(check.name)
        if bool(stands.sizes.any()):
            text = stands.told(check.text)
            found.append(Finding(check.name, text, float(stands.sizes.max())))
    return found


def _checks(ways: dict[str, ForwardMode], rows: Tensor, other: Tensor) -> list[_Check]:
    plain = ways[EVALUATION]
    checks = [
        _Check(
            "batch, evaluation mode",
            plain,
            lambda view: change(view.outputs(rows)[:1], view.outputs(rows[:1])),
            "a row alone gives other outputs than the same row in a batch",
        )
    ]
    for name in (EVALUATION, TRAINING):
        if name in ways:
            checks.append(
                _Check(
                    f"other rows, {name}",
                    ways[name],
                    lambda view: _beside(view, rows, other),
                    f"a row's outputs depend on the other rows of its batch in {name}",
                )
            )
    if WEIGHTS in ways:
        checks.append(
            _Check(
                WEIGHTS,
                ways[WEIGHTS],
                lambda view: change(_as(view, plain).outputs(rows), view.outputs(rows)),
                "outputs change when attention weights are requested",
            )
        )
    if CACHE in ways:
        checks += _cache_checks(ways, rows)
    for name in PADDED:
        if name in ways:
            checks += _padding_checks(ways, name, rows)
    return checks


def _as(view: ForwardMode, other: ForwardMode) -> ForwardMode:
    """`other`, in the precision of `view`."""
    return replace(other, wide=view.wide)


def _beside(view: ForwardMode, rows: Tensor, other: Tensor) -> Tensor:
    """Change of the first row when all the others are replaced."""
    return change(view.outputs(rows)[:1], view.outputs(torch.cat([rows[:1], other[1:]]))[:1])


def _cache_checks(ways: dict[str, ForwardMode], rows: Tensor) -> list[_Check]:
    pieces = ways[CACHE]
    singly = replace(pieces, call=in_pieces(pieces.subject, one_by_one))
    return [
        _Check(
            f"cache, {how}",
            view,
            lambda view: change(_as(view, ways[EVALUATION]).outputs(rows), view.outputs(rows)),
            f"reading {how} through the cache gives other outputs than reading the row at once",
        )
        for how, view in (("piece by piece", pieces), ("token by token", singly))
    ]


def _padding_checks(ways: dict[str, ForwardMode], name: str, rows: Tensor) -> list[_Check]:
    view = ways[name]
    before, after = PADDED[name]
    filled = padded(view.subject, before=before, after=after, filler=_filler(view.subject))
    return [
        _Check(
            name,
            view,
            lambda view: change(_as(view, ways[EVALUATION]).outputs(rows), view.outputs(rows)),
            f"outputs change {name}",
        ),
        _Check(
            f"{name}, other filling",
            view,
            lambda view: change(view.outputs(rows), replace(view, call=filled).outputs(rows)),
            f"what stands in the padding changes outputs {name}",
        ),
    ]


def _filler(subject: Subject) -> int:
    return subject.vocabulary - 1 if subject.vocabulary else 1
