"""The short look at a model whose architecture was audited before: gradients at its own weights.

Values of other parameters were searched then, in every mode and at many lengths. What is left is
that exactly these weights, on exactly this text, let something through.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from regard.audits.forward.forward_mode import ForwardError
from regard.audits.forward.modes import EVALUATION, TRAINING, forward_modes
from regard.audits.leaks.gradient import leaks_by_gradient
from regard.audits.leaks.permission import MaskFunction, build_permission
from regard.audits.leaks.search import LeakSearch
from regard.audits.leaks.truncation import leaks_by_truncation
from regard.audits.notes import Notes
from regard.audits.subject import Subject


def why_not_clean(subject: Subject, row: Tensor, *, mask: str | MaskFunction) -> str:
    """What speaks against calling the model clean at its weights: a leak, or a check that did not
    run; empty where nothing does. `row` (t,): ids of real text; a random row is tried too."""
    permission, notes = build_permission(mask), Notes()
    row = row[: subject.max_length]
    if len(row) < 2:
        return "the text is too short to look at"
    if not permission.forbids(len(row)):
        return ""
    search = LeakSearch(subject, permission, notes, seed=0, flops_per_position=0.0)
    modes = forward_modes(subject, Notes())
    reachable, inputs = permission.reachable(len(row)), row[None].to(subject.device)
    for mode in (modes[EVALUATION], modes[TRAINING]):
        try:
            found = leaks_by_gradient(search, mode, inputs, reachable)
            if not mode.training:  # there, dropout draws another mask for another length
                beside = replace(search, notes=Notes())
                found["truncation"] = leaks_by_truncation(beside, mode, inputs)
        except ForwardError as problem:
            return f"{mode.name}: {problem}"
        for how, pairs in found.items():
            if pairs:
                return f"{mode.name}: {how}"
    return "; ".join(notes.unchecked)
