"""Invariances: outputs must not change with padding, a KV cache, or requested weights.

A violation is a finding, not a leak: a model may be causal and still compute a row differently
when it is padded on the left (GPT-2 without position ids does).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeAlias

import torch
from torch import Tensor

from regard.audits.findings import Finding
from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.modes import (
    CACHE,
    EVALUATION,
    MASK_OF_ONES,
    PADDED,
    PADDED_POSITIONS,
    TRUE_POSITIONS,
    WEIGHTS,
    chunked,
    padded,
    single_tokens,
)
from regard.audits.forward.precision import recheck_in_float64, relative_change, why_incomparable
from regard.audits.notes import Notes
from regard.audits.subject import Subject

LENGTH = 12
BATCH_SIZE = 3

Outputs: TypeAlias = Callable[[ForwardMode], Tensor]
"A mode's outputs for the audited rows."


@dataclass(frozen=True)
class _Check:
    name: str
    mode: ForwardMode
    measure: Callable[[Outputs, ForwardMode], Tensor]
    text: str


def find_violations(modes: dict[str, ForwardMode], notes: Notes, *, seed: int = 0) -> list[Finding]:
    """Every invariance that can be tested and does not hold."""
    subject = modes[EVALUATION].subject
    length = LENGTH if subject.sample is None else subject.sample.shape[1]
    generator = torch.Generator().manual_seed(seed)
    if subject.max_length is not None:
        length = min(length, max(1, subject.max_length - 3))
    rows = subject.draw(BATCH_SIZE, length, generator)

    def outputs(mode: ForwardMode) -> Tensor:
        return mode.outputs(rows)

    # Several checks share a mode: the first pass runs it once, the recheck runs it again.
    first_outputs, problems = cache(outputs), cache(lambda mode: why_incomparable(mode, rows[:1]))
    findings = []
    for check in _checks(modes):
        try:
            if problem := problems(check.mode):
                raise ForwardError(problem)
            first = check.measure(first_outputs, check.mode)
            remeasure = partial(check.measure, outputs)
            influence = recheck_in_float64(first, remeasure, mode=check.mode, notes=notes)
        except ForwardError as error:
            notes.add_unchecked(f"{check.name}: {error}")
            continue
        if influence.doubt:
            notes.add_unchecked(f"{check.name}: {influence.doubt}")
            continue
        notes.add_checked(check.name)
        if bool(influence.sizes.any()):
            text = influence.describe(check.text)
            findings.append(Finding(check.name, text, float(influence.sizes.max())))
    return findings


def _checks(modes: dict[str, ForwardMode]) -> list[_Check]:
    plain = modes[EVALUATION]
    checks: list[_Check] = []
    if WEIGHTS in modes:
        checks.append(
            _Check(
                WEIGHTS,
                modes[WEIGHTS],
                lambda outputs, mode: relative_change(
                    outputs(_same_dtype(mode, plain)), outputs(mode)
                ),
                "outputs change when attention weights are requested",
            )
        )
    for name in (MASK_OF_ONES, TRUE_POSITIONS, PADDED_POSITIONS):
        if name in modes:
            checks.append(
                _Check(
                    name,
                    modes[name],
                    lambda outputs, mode: relative_change(
                        outputs(_same_dtype(mode, plain)), outputs(mode)
                    ),
                    f"outputs change {name}",
                )
            )
    if CACHE in modes:
        checks += _cache_checks(modes)
    for name in PADDED:
        if name in modes:
            checks += _padding_checks(modes, name)
    return checks


def _same_dtype(mode: ForwardMode, other: ForwardMode) -> ForwardMode:
    """`other`, in float64 where `mode` is."""
    return replace(other, float64=mode.float64)


def _cache_checks(modes: dict[str, ForwardMode]) -> list[_Check]:
    chunks = modes[CACHE]
    tokens = replace(chunks, forward=chunked(chunks.subject, single_tokens))
    return [
        _Check(
            f"cache, {how}",
            mode,
            lambda outputs, mode: relative_change(
                outputs(_same_dtype(mode, modes[EVALUATION])), outputs(mode)
            ),
            f"decoding {how} with the KV cache gives other outputs than one forward pass",
        )
        for how, mode in (("chunk by chunk", chunks), ("token by token", tokens))
    ]


def _padding_checks(modes: dict[str, ForwardMode], name: str) -> list[_Check]:
    mode = modes[name]
    before, after = PADDED[name]
    padding_id = _other_padding_id(mode.subject)
    other = padded(mode.subject, before=before, after=after, padding_id=padding_id)
    return [
        _Check(
            name,
            mode,
            lambda outputs, mode: relative_change(
                outputs(_same_dtype(mode, modes[EVALUATION])), outputs(mode)
            ),
            f"outputs change {name}",
        ),
        _Check(
            f"{name}, other padding tokens",
            mode,
            lambda outputs, mode: relative_change(
                outputs(mode), outputs(replace(mode, forward=other))
            ),
            f"the tokens in the padding change outputs {name}",
        ),
    ]


def _other_padding_id(subject: Subject) -> int:
    return subject.vocabulary - 1 if subject.vocabulary else 1
