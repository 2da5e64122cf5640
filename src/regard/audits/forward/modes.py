"""The ways a model can be run, each of which can leak on its own.

Evaluation and training mode; with attention weights requested, which often takes another path;
through a cache, in pieces; with padding on either side; moved off its starting values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import AuditedCopy, Call, ForwardMode, RefusedError
from regard.audits.forward.perturbed import has_blank_parameters, shake
from regard.audits.notes import Notes
from regard.audits.subject import Subject, rows_of

EVALUATION = "evaluation mode"
TRAINING = "training mode"
WEIGHTS = "with weights requested"
CACHE = "through the cache"
PADDED = {"with padding on the right": (0, 3), "with padding on the left": (3, 0)}
"Places of padding before and after the row."
SHAKEN = "with shaken parameters"


def forward_modes(subject: Subject, notes: Notes, *, seed: int = 0) -> dict[str, ForwardMode]:
    """Every way this subject can be run, by name; what is not possible is noted."""
    specimen = AuditedCopy(subject)
    if specimen.why_not_copied:
        notes.could_not(f"a copy of the model: {specimen.why_not_copied}; it was used itself")
    found = {EVALUATION: ForwardMode(EVALUATION, specimen, plain(subject), seed=seed)}
    if subject.module is None:
        notes.could_not(f"{TRAINING}: a callable without its module has no modes to set")
    else:
        found[TRAINING] = ForwardMode(TRAINING, specimen, plain(subject), training=True, seed=seed)
    if subject.run_with_weights is None:
        notes.could_not(f"{WEIGHTS}: the model offers no way to ask for them")
    else:
        found[WEIGHTS] = ForwardMode(WEIGHTS, specimen, subject.run_with_weights, seed=seed)
    if subject.run_cached is None:
        notes.could_not(f"{CACHE}: the model offers no cache")
    else:
        found[CACHE] = ForwardMode(CACHE, specimen, in_pieces(subject, several), seed=seed)
    if subject.takes_valid:
        for name, (before, after) in PADDED.items():
            call = padded(subject, before=before, after=after)
            found[name] = ForwardMode(name, specimen, call, seed=seed)
    else:
        notes.could_not("padding: the model takes no padding mask")
    if subject.module is not None and has_blank_parameters(subject.module):
        try:
            moved = AuditedCopy(subject, shake)
            found[SHAKEN] = ForwardMode(SHAKEN, moved, plain(subject), seed=seed)
        except RefusedError as problem:
            notes.could_not(f"{SHAKEN}: {problem}")
    return found


def plain(subject: Subject) -> Call:
    return lambda module, inputs: subject.run(module, inputs, None)


def padded(subject: Subject, *, before: int, after: int, filler: int = 0) -> Call:
    """Run with places of padding around, which are cut off what comes out."""

    def call(module: Any, inputs: Tensor) -> Tensor:
        rows, places = inputs.shape[:2]
        longer = inputs.new_full((rows, before + places + after, *inputs.shape[2:]), filler)
        longer[:, before : before + places] = inputs
        valid = torch.zeros(longer.shape[:2], dtype=torch.bool, device=inputs.device)
        valid[:, before : before + places] = True
        output = subject.run(module, longer, valid)
        found = rows_of(output, batch=rows, places=longer.shape[1], name=subject.name)
        return found[:, before : before + places]

    return call


def in_pieces(subject: Subject, cuts_of: Callable[[int], Sequence[int]]) -> Call:
    """Run through the cache; `cuts_of(t)` says where a new piece begins."""
    run = subject.run_cached
    assert run is not None
    return lambda module, inputs: run(module, inputs, cuts_of(inputs.shape[1]))


def several(places: int) -> Sequence[int]:
    """A long piece, a single token, then pieces of several: 12 places are cut at 5, 6 and 9."""
    cuts = {places * 5 // 12, places * 5 // 12 + 1, places * 3 // 4}
    return sorted(cut for cut in cuts if 0 < cut < places)


def one_by_one(places: int) -> Sequence[int]:
    return range(1, places)
