"""Audit a model: leaks against its mask, invariances, unused parameters, in one verdict.

audit(model).sentence()   "sees the future: position 7 reacts to tokens 8, 9, 11 (…)"
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from regard.audits.build_subject import build_subject
from regard.audits.findings import Finding, Leak, UnusedParameter
from regard.audits.forward.forward_mode import error_summary
from regard.audits.forward.modes import forward_modes
from regard.audits.invariance import find_violations
from regard.audits.leaks.batch_coupling import find_batch_coupling
from regard.audits.leaks.causality import SINGLE_LAYERS, find_leaks
from regard.audits.leaks.permission import MaskFunction, Permission, build_permission
from regard.audits.notes import Notes
from regard.audits.subject import Subject
from regard.audits.unused_parameters import (
    LossFunction,
    find_unused_parameters,
    random_target_loss,
)
from regard.core.html_display import HtmlDisplay

Verdict = Literal["clean", "leak", "batch coupling", "cannot tell"]
MaskOrigin = Literal["as given", "the model's own", "by default"]
MAX_KEYS_NAMED = 4


@dataclass(frozen=True)
class Audit(HtmlDisplay):
    """The result of an audit; `leaks` holds forbidden (query, key) influence only."""

    target: str
    mask: str
    mask_from: MaskOrigin
    leaks: tuple[Leak, ...]
    findings: tuple[Finding, ...]
    unused_parameters: tuple[UnusedParameter, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    "Each check that could not run, with its reason."
    verdict: Verdict
    reason: str
    seconds: float

    def __repr__(self) -> str:
        return f"<Audit {self.target}: {self.sentence()}>"

    @property
    def is_clean(self) -> bool:
        return self.verdict == "clean"

    def sentence(self) -> str:
        """The verdict in one line."""
        return self.reason if self.leaks else f"{self.verdict}: {self.reason}"


def audit(
    target: Any,
    *,
    mask: str | Tensor | MaskFunction | Permission | None = None,
    sample: Tensor | None = None,
    seed: int = 0,
    lengths: Sequence[int] | None = None,
    loss_fn: LossFunction | None = None,
) -> Audit:
    """Audit a model, a module or a callable from token ids (b,t) or embeddings (b,t,w) to outputs.

    `mask` says which inputs an output may depend on: "causal", "bidirectional", "prefix:3", a (t,t)
    table or a function of t that returns one, True = may attend; by default the model's own
    `visibility`, else causal. `lengths` replaces the lengths that are tried. `loss_fn` is the
    training loss, whose gradient to each parameter is then tested; by default any dependence of
    the outputs counts.

    A module is copied and not modified. Of a callable without its module only outputs can be
    compared, and gradients taken to a `sample` of embeddings: training mode, KV cache, padding,
    gradients to token embeddings and parameters stay unchecked, and state that it keeps between
    calls is not restored. A clean verdict covers what `checked` lists, at those lengths.
    """
    started = time.perf_counter()
    mask_from: MaskOrigin = "as given"
    if mask is None:
        own = getattr(target, "visibility", None)
        mask, mask_from = (
            (own, "the model's own") if isinstance(own, str) else ("causal", "by default")
        )
    permission = build_permission(mask)
    subject = build_subject(target, sample)
    notes = Notes()
    modes = forward_modes(subject, notes, seed=seed)
    leaks = find_leaks(modes, permission, notes, seed=seed, lengths=lengths)
    coupling = find_batch_coupling(modes, notes, seed=seed)
    findings = [*coupling, *find_violations(modes, notes, seed=seed)]
    unused_parameters = _unused_parameters(subject, loss_fn, notes)
    if subject.trained_module is not None:
        notes.add_unchecked("leaks in the task head: it may depend on every position of its row")
    verdict, reason = _verdict(leaks, coupling, permission, notes)
    return Audit(
        target=subject.name,
        mask=permission.name,
        mask_from=mask_from,
        leaks=tuple(leaks),
        findings=tuple(findings),
        unused_parameters=tuple(unused_parameters),
        checked=tuple(notes.checked),
        unchecked=tuple(notes.unchecked),
        verdict=verdict,
        reason=reason,
        seconds=time.perf_counter() - started,
    )


def _unused_parameters(
    subject: Subject, loss_fn: LossFunction | None, notes: Notes
) -> list[UnusedParameter]:
    module = subject.trained_module or subject.module
    if module is None:
        notes.add_unchecked("unused parameters: a callable without its module shows no parameters")
        return []
    if subject.trained_module is not None and loss_fn is None:
        notes.add_unchecked(
            "unused parameters: below a task head it takes the task's loss on its rows, "
            "which `regard train` tests"
        )
        return []
    try:
        found = find_unused_parameters(module, loss_fn or random_target_loss(subject))
    except Exception as problem:  # foreign code, copied and run in float64, may raise anything
        notes.add_unchecked(f"unused parameters: {error_summary(problem)}")
        return []
    by = "" if loss_fn is None else ", by the training loss on training rows"
    notes.add_checked(f"gradient of every trained parameter{by}")
    return found


def _verdict(
    leaks: list[Leak], coupling: list[Finding], permission: Permission, notes: Notes
) -> tuple[Verdict, str]:
    if leaks:
        return "leak", leak_sentence(leaks, permission)
    if coupling:
        return "batch coupling", f"{coupling[0].text} (by {coupling[0].size:.2g})"
    if notes.doubts:
        return "cannot tell", "; ".join(notes.doubts)
    clean = f"no output depends on an input that the mask {permission.name} forbids"
    if SINGLE_LAYERS in notes.unchecked:
        clean += " through any number of layers; what a single layer attends to was not tested"
    return "clean", clean


def leak_sentence(leaks: list[Leak], permission: Permission) -> str:
    """`sees the future: position 7 reacts to tokens 8, 9, 11 (largest influence 0.31)`"""
    first = [leak for leak in leaks if leak.where == leaks[0].where]
    largest = max(first, key=lambda leak: leak.influence)
    keys = sorted(leak.key for leak in first if leak.query == largest.query)
    named = ", ".join(map(str, keys[:MAX_KEYS_NAMED]))
    named += ", …" if len(keys) > MAX_KEYS_NAMED else ""
    sees = "the future" if all(leak.key > leak.query for leak in leaks) else "what the mask forbids"
    tokens = f"token{'s' if len(keys) > 1 else ''} {named}"
    position = f"position {largest.query} reacts to {tokens}"
    found = f"(largest influence {largest.influence:.2g}, {largest.where}, by {largest.how})"
    if largest.opens_with:
        return f"sees {sees}, {_hidden_until(largest)}; then {position} {found}"
    return f"sees {sees}: {position} {found}"


def _hidden_until(leak: Leak) -> str:
    """`hidden at these weights: opens when blocks.0.gate trains`"""
    several = len(leak.opens_with) > 1
    verb = "train" if several else "trains"
    if leak.opens_by == "no longer zero":
        verb = f"{'are' if several else 'is'} no longer zero"
    return f"hidden at these weights: opens when {' and '.join(leak.opens_with)} {verb}"
