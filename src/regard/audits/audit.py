"""The audit of a model: what it may see, what changes its outputs, what can learn, in one verdict.

audit(model).sentence()   "sees the future: position 7 reacts to tokens 8, 9, 11 (…)"
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor

from regard.audits.forward.forward_mode import first_line
from regard.audits.forward.modes import forward_modes
from regard.audits.invariance import Finding, find_findings
from regard.audits.leaks.causality import WITHIN_A_LAYER, Leak, find_leaks
from regard.audits.leaks.permission import MaskAt, Permission, permission_of
from regard.audits.notes import Notes
from regard.audits.reach import LossOf, UnusedParameter, find_unused_parameters, loss_of_subject
from regard.audits.subject import Subject
from regard.audits.wrap import subject_of

Verdict = Literal["clean", "leak", "cannot tell"]
MaskFrom = Literal["as asked", "the model's own", "by default"]
LEAKS_WRITTEN = 100
KEYS_TOLD = 4


@dataclass(frozen=True)
class Audit:
    """What an audit saw; `leaks` holds forbidden (query, key) influence only."""

    target: str
    mask: str
    mask_from: MaskFrom
    leaks: tuple[Leak, ...]
    findings: tuple[Finding, ...]
    unreached: tuple[UnusedParameter, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    "Each check that could not run, with its reason."
    verdict: Verdict
    reason: str
    seconds: float

    @property
    def is_clean(self) -> bool:
        return self.verdict == "clean"

    def sentence(self) -> str:
        """The verdict in one line."""
        if self.verdict == "cannot tell":
            return f"cannot tell: {self.reason}"
        return self.reason if self.leaks else f"clean: {self.reason}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the largest leaks are listed, all are counted."""
        largest = sorted(self.leaks, key=lambda leak: -leak.influence)[:LEAKS_WRITTEN]
        return {
            **asdict(self),
            "sentence": self.sentence(),
            "leak_count": len(self.leaks),
            "leaks": [asdict(leak) for leak in largest],
        }


def audit(
    target: Any,
    *,
    mask: str | Tensor | MaskAt | Permission | None = None,
    sample: Tensor | None = None,
    seed: int = 0,
    lengths: Sequence[int] | None = None,
    loss_of: LossOf | None = None,
) -> Audit:
    """Audit a model, a module or a callable from token ids (b,t) or vectors (b,t,w) to outputs.

    `mask` says what may be seen: "causal", "bidirectional", "prefix:3", a (t,t) table or a function
    of t that gives one, True = may attend; without one it is what the model says it `sees`, else
    causal. `lengths` replaces the lengths that are tried. `loss_of` is the loss of the training, by
    which parameters are then asked for their gradient; without it any change of outputs counts.

    A module is copied, and left as it was. Of a callable without its module only the outputs can
    be compared, and through `sample`'s vectors gradients taken: its training mode, cache, padding,
    gradients to token vectors and parameters stay unchecked, and what it remembers from one call
    to the next is not put back. A clean verdict speaks of what `checked` lists, at those lengths.
    """
    started = time.perf_counter()
    mask_from: MaskFrom = "as asked"
    if mask is None:
        own = getattr(target, "sees", None)
        mask, mask_from = (
            (own, "the model's own") if isinstance(own, str) else ("causal", "by default")
        )
    permission = permission_of(mask)
    subject = subject_of(target, sample)
    notes = Notes()
    ways = forward_modes(subject, notes, seed=seed)
    leaks = find_leaks(ways, permission, notes, seed=seed, lengths=lengths)
    findings = find_findings(ways, notes, seed=seed)
    unreached = _reach(subject, loss_of, notes)
    if subject.trained is not None:
        notes.could_not("leaks in the head of the task: it may read its row whole")
    verdict, reason = _verdict(leaks, permission, notes)
    return Audit(
        target=subject.name,
        mask=permission.name,
        mask_from=mask_from,
        leaks=tuple(leaks),
        findings=tuple(findings),
        unreached=tuple(unreached),
        checked=tuple(notes.checked),
        unchecked=tuple(notes.unchecked),
        verdict=verdict,
        reason=reason,
        seconds=time.perf_counter() - started,
    )


def _reach(subject: Subject, loss_of: LossOf | None, notes: Notes) -> list[UnusedParameter]:
    module = subject.trained or subject.module
    if module is None:
        notes.could_not("gradient reach: a callable without its module has no parameters to ask")
        return []
    if subject.trained is not None and loss_of is None:
        notes.could_not(
            "gradient reach: under the head of a task it is asked by the task's loss on its rows, "
            "which `regard train` does"
        )
        return []
    try:
        found = find_unused_parameters(module, loss_of or loss_of_subject(subject))
    except (
        Exception
    ) as problem:  # the model's own code, copied and run in float64, may raise anything
        notes.could_not(f"gradient reach: {first_line(problem)}")
        return []
    by = "" if loss_of is None else ", by the loss of the training on its rows"
    notes.did(f"gradient reach of every trained parameter{by}")
    return found


def _verdict(leaks: list[Leak], permission: Permission, notes: Notes) -> tuple[Verdict, str]:
    if leaks:
        return "leak", _leak_sentence(leaks, permission)
    if notes.doubts:
        return "cannot tell", "; ".join(notes.doubts)
    clean = f"no output depends on an input that the mask {permission.name} forbids"
    if WITHIN_A_LAYER in notes.unchecked:
        clean += " through any number of layers; what one layer sees alone was not tested"
    return "clean", clean


def _leak_sentence(leaks: list[Leak], permission: Permission) -> str:
    """`sees the future: position 7 reacts to tokens 8, 9, 11 (largest influence 0.31)`"""
    first = [leak for leak in leaks if leak.where == leaks[0].where]
    largest = max(first, key=lambda leak: leak.influence)
    keys = sorted(leak.key for leak in first if leak.query == largest.query)
    told = ", ".join(map(str, keys[:KEYS_TOLD])) + (", …" if len(keys) > KEYS_TOLD else "")
    sees = "the future" if all(leak.key > leak.query for leak in leaks) else "what the mask forbids"
    tokens = f"token{'s' if len(keys) > 1 else ''} {told}"
    return (
        f"sees {sees}: position {largest.query} reacts to {tokens} "
        f"(largest influence {largest.influence:.2g}, {largest.where}, by {largest.how})"
    )
