"""The leak test of one row: the part of an audit that somebody can wait for.

`audit` tries modes, lengths, padding and parameters. Here one row is tested in evaluation mode, by
the same search: its tokens are replaced, its gradients taken, and where a mask grows through layers
each layer is tested alone. So a clean answer holds for rows of this length in this mode; and every
forbidden pair is tested, or the answer is that it cannot be told.
Shapes: i query, j key. Masks: True = may attend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from regard.audits.audit import leak_sentence
from regard.audits.findings import Leak
from regard.audits.forward.forward_mode import AuditedCopy, ForwardError, ForwardMode
from regard.audits.forward.modes import EVALUATION, plain
from regard.audits.leaks.causality import leaks_at_length
from regard.audits.leaks.layers import find_wide_layers
from regard.audits.leaks.permission import Permission
from regard.audits.leaks.search import BUDGET, COST_PER_PAIR, LeakSearch
from regard.audits.notes import Notes
from regard.audits.subject import Subject

MAX_OPERATIONS = 6e10
"Of a test: about two seconds of one core."
REPLACEMENT_ROWS = 4
"Trials of each position: three replacements, and one of all that is forbidden to it."
COST_PER_SUBMODULE = 10
"Operations for one query and one key in each submodule, roughly: deep models have many."

RowVerdict = Literal["clean", "leak", "nothing forbidden", "cannot tell"]


@dataclass(frozen=True)
class RowAudit:
    """What the leak test of one row found."""

    verdict: RowVerdict
    sentence: str
    leaks: tuple[Leak, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]


def audit_row(subject: Subject, row: Tensor, declared: Tensor, *, name: str) -> RowAudit:
    """Whether an output of `row`, ids (1,i), depends on what the table `declared` (i,j) forbids at
    any depth, or a single layer on what it forbids there; `name` is that of the declared mask."""
    length = row.shape[1]
    permission = Permission(name, lambda t: declared, only_length=length)
    forbids, grows = permission.forbids(length), permission.grows_with_depth(length)
    if not forbids and not grows:
        return RowAudit(
            "nothing forbidden", f"the mask {name} forbids nothing, so nothing can leak", (), (), ()
        )
    subject, notes = replace(subject, sample=row), Notes()
    mode = ForwardMode(EVALUATION, AuditedCopy(subject), plain(subject))
    try:
        cost = subject.flops_per_position(mode.outputs(row).shape[-1])
    except ForwardError as problem:
        return RowAudit("cannot tell", f"cannot tell: {problem}", (), (), ())
    if (operations := _operations(subject, length, cost, grows=grows)) > MAX_OPERATIONS:
        return RowAudit("cannot tell", _too_long(length, operations), (), (), ())
    # The search spends a budget; a lower cost makes it test every position.
    affordable = BUDGET / (2 * length * REPLACEMENT_ROWS * length) - COST_PER_PAIR * length
    search = LeakSearch(subject, permission, notes, 0, min(cost, affordable))
    wide = find_wide_layers(search, {EVALUATION: mode}, max_queries=length) if grows else None
    if wide is None and grows and not forbids:
        reason = "through layers everything is reached, and no submodule was found that is one"
        return RowAudit("cannot tell", f"cannot tell: {reason}", (), (), tuple(notes.unchecked))
    leaks = wide or (leaks_at_length(search, mode, length) if forbids else [])
    checked, unchecked = tuple(notes.checked), tuple(notes.unchecked)
    if leaks:
        sentence = leak_sentence(leaks, permission)
        return RowAudit("leak", sentence, tuple(leaks), checked, unchecked)
    if notes.doubts:
        doubt = "; ".join(notes.doubts)
        return RowAudit("cannot tell", f"cannot tell: {doubt}", (), checked, unchecked)
    clean = f"clean: no output of this row depends on a token that the mask {name} forbids"
    if not forbids:
        clean = f"clean: no single layer attends to what the mask {name} forbids"
    return RowAudit("clean", clean, (), checked, unchecked)


def _operations(subject: Subject, length: int, cost: float, *, grows: bool) -> float:
    """Of a whole test, roughly; `cost` is that of one position without its pairs."""
    submodules = len(list(subject.module.modules())) if subject.module is not None else 1
    position = cost + (COST_PER_PAIR + COST_PER_SUBMODULE * submodules) * length
    forward = length * length * position
    return forward * (2 * REPLACEMENT_ROWS + (submodules if grows else 0))


def _too_long(length: int, operations: float) -> str:
    return (
        f"cannot tell: {length} positions of this model take {operations / MAX_OPERATIONS:.1f} "
        "times what is tested here; shorten the text"
    )
