"""The forward modes of a model, each of which can leak on its own.

Eval and train mode; with attention weights requested, which often takes another code path; chunked
with a KV cache; padded on either side; structural, with random values for all parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.audits.arguments import (
    MASK,
    POSITIONS,
    TYPES,
    Values,
    ones,
    positions,
    shifted_positions,
    two_types,
)
from regard.audits.forward.forward_mode import AuditedCopy, Forward, ForwardMode
from regard.audits.forward.structural import (
    Draw,
    Replacement,
    fixed_zeros,
    values_for_zeros,
)
from regard.audits.notes import Notes
from regard.audits.subject import Subject, position_outputs

EVALUATION = "evaluation mode"
TRAINING = "training mode"
WEIGHTS = "with attention weights requested"
CACHE = "with the KV cache"
PADDED = {"with padding on the right": (0, 3), "with padding on the left": (3, 0)}
"Padding positions before and after the row."
SHIFT = 3
MASK_OF_ONES = "with a mask of ones"
TOKEN_TYPES = "with two token types"
TRUE_POSITIONS = "with position ids"
SHIFTED_POSITIONS = "with shifted position ids"
PADDED_POSITIONS = "with padding on the left and position ids"
RESERVED = {name: sum(around) for name, around in PADDED.items()} | {
    SHIFTED_POSITIONS: SHIFT,
    PADDED_POSITIONS: SHIFT,
}
"Positions that a mode needs beside those of the row."
STRUCTURAL = "structural mode"
STRUCTURAL_TRAINING = "structural mode, training"
WITHOUT_ZEROS = "structural mode, fixed zeros replaced"
WITHOUT_ZEROS_TRAINING = "structural mode, fixed zeros replaced, training"


def forward_modes(subject: Subject, notes: Notes, *, seed: int = 0) -> dict[str, ForwardMode]:
    """Every mode this subject can run in, by name; impossible ones are noted."""
    audited = AuditedCopy(subject)
    if audited.copy_error:
        notes.add_unchecked(f"a copy of the model: {audited.copy_error}; the original was used")
    modes = {EVALUATION: ForwardMode(EVALUATION, audited, plain(subject), seed=seed)}
    if subject.module is None:
        notes.add_unchecked(f"{TRAINING}: a callable without its module has no modes to set")
    else:
        modes[TRAINING] = ForwardMode(TRAINING, audited, plain(subject), training=True, seed=seed)
    if subject.run_with_weights is None:
        notes.add_unchecked(f"{WEIGHTS}: the model has no way to return them")
    else:
        modes[WEIGHTS] = ForwardMode(WEIGHTS, audited, subject.run_with_weights, seed=seed)
    if subject.run_cached is None:
        notes.add_unchecked(f"{CACHE}: the model has no cache")
    else:
        modes[CACHE] = ForwardMode(CACHE, audited, chunked(subject, mixed_chunks), seed=seed)
    if subject.accepts_padding_mask:
        for name, (before, after) in PADDED.items():
            forward = padded(subject, before=before, after=after)
            modes[name] = ForwardMode(name, audited, forward, seed=seed)
    elif not any(refused.startswith(MASK) for refused in subject.refused_arguments):
        notes.add_unchecked("padding: the model takes no padding mask")
    for sentence in (*subject.refused_arguments, *subject.untested):
        notes.add_unchecked(sentence)
    for name, forward in _with_arguments(subject).items():
        modes[name] = ForwardMode(name, audited, forward, seed=seed)
    return modes


def _with_arguments(subject: Subject) -> dict[str, Forward]:
    """Forwards that give the arguments a model takes: true, shifted, of two texts, padded."""
    run = subject.run_with_arguments
    if run is None:
        return {}

    def given(name: str, values: Values) -> Forward:
        return lambda module, inputs: run(module, inputs, {name: values(inputs)})

    modes: dict[str, Forward] = {}
    if MASK in subject.arguments:
        modes[MASK_OF_ONES] = given(MASK, ones)
    if TYPES in subject.arguments:
        modes[TOKEN_TYPES] = given(TYPES, two_types)
    if POSITIONS in subject.arguments:
        modes[TRUE_POSITIONS] = given(POSITIONS, positions)
        modes[SHIFTED_POSITIONS] = given(POSITIONS, shifted_positions(SHIFT))
    if MASK in subject.arguments and POSITIONS in subject.arguments:
        modes[PADDED_POSITIONS] = padded(subject, before=SHIFT, after=0, with_positions=True)
    return modes


def structural_modes(evaluation: ForwardMode, *, brief: bool = False) -> list[ForwardMode]:
    """The model with random parameters, in evaluation and training mode and with all signs;
    `brief`: once in each mode, with signs that are opposite."""
    if evaluation.subject.module is None:
        return []
    draws = [Draw.OPPOSITE] if brief else list(Draw)
    in_training = [Draw.MIXED] if brief else [Draw.MIXED, Draw.POSITIVE]
    value = evaluation.audited.structural
    return [replace(evaluation, name=STRUCTURAL, replacement=value(draw)) for draw in draws] + [
        replace(evaluation, name=STRUCTURAL_TRAINING, training=True, replacement=value(draw))
        for draw in in_training
    ]


def modes_without_zeros(evaluation: ForwardMode, inputs: Tensor) -> list[ForwardMode]:
    """As structural modes, with values for tensors that stay zero without being trained."""
    module = evaluation.subject.module
    if module is None:
        return []
    zeros = constant_zeros(evaluation, inputs)
    modes = []
    for draw in Draw if zeros else ():
        both = Replacement(
            evaluation.audited.structural(draw).values | values_for_zeros(zeros, draw).values
        )
        modes.append(replace(evaluation, name=WITHOUT_ZEROS, replacement=both))
    return modes + [replace(mode, name=WITHOUT_ZEROS_TRAINING, training=True) for mode in modes[:1]]


def constant_zeros(mode: ForwardMode, inputs: Tensor) -> dict[str, Tensor]:
    """Those of `fixed_zeros` that a forward pass leaves zero; a mask may be built when used."""
    zeros: dict[str, Tensor] = {}

    def forward(module: Any, inputs: Tensor) -> Any:
        output = mode.forward(module, inputs)
        zeros.update(fixed_zeros(module))
        return output

    before = fixed_zeros(mode.audited.module) if mode.audited.module is not None else {}
    if before:
        replace(mode, forward=forward).outputs(inputs)
    return {name: zero for name, zero in zeros.items() if name in before}


def plain(subject: Subject) -> Forward:
    return lambda module, inputs: subject.run(module, inputs, None)


def padded(
    subject: Subject,
    *,
    before: int,
    after: int,
    padding_id: int = 0,
    with_positions: bool = False,
) -> Forward:
    """Run with padding around the row; outputs at padding positions are dropped."""

    def run(module: Any, longer: Tensor, valid: Tensor) -> Any:
        if not with_positions:
            return subject.run(module, longer, valid)
        assert subject.run_with_arguments is not None
        counted = (valid.long().cumsum(dim=1) - 1).clamp(min=0)
        return subject.run_with_arguments(module, longer, {MASK: valid.long(), POSITIONS: counted})

    def forward(module: Any, inputs: Tensor) -> Tensor:
        batch, length = inputs.shape[:2]
        longer = inputs.new_full((batch, before + length + after, *inputs.shape[2:]), padding_id)
        longer[:, before : before + length] = inputs
        valid = torch.zeros(longer.shape[:2], dtype=torch.bool, device=inputs.device)
        valid[:, before : before + length] = True
        output = run(module, longer, valid)
        outputs = position_outputs(output, batch=batch, length=longer.shape[1], name=subject.name)
        return outputs[:, before : before + length]

    return forward


def chunked(subject: Subject, cuts_at: Callable[[int], Sequence[int]]) -> Forward:
    """Run with the KV cache; `cuts_at(length)` gives the positions where a new chunk begins."""
    run = subject.run_cached
    assert run is not None
    return lambda module, inputs: run(module, inputs, cuts_at(inputs.shape[1]))


def mixed_chunks(length: int) -> Sequence[int]:
    """A long chunk, a single token, then several: a row of 12 is cut at 5, 6 and 9."""
    cuts = {length * 5 // 12, length * 5 // 12 + 1, length * 3 // 4}
    return sorted(cut for cut in cuts if 0 < cut < length)


def single_tokens(length: int) -> Sequence[int]:
    return range(1, length)
