"""Hidden leaks: those that the model's own weights conceal, and training opens.

Searched where its own weights show none, with structural values (`forward/structural.py`); then
the fewest tensors are looked for whose new values open the leak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from regard.audits.findings import Leak
from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.modes import (
    WITHOUT_ZEROS,
    WITHOUT_ZEROS_TRAINING,
    modes_without_zeros,
    structural_modes,
)
from regard.audits.forward.opening import tensors_that_open
from regard.audits.forward.precision import why_incomparable
from regard.audits.forward.structural import fixed_zeros
from regard.audits.leaks.perturbation import PairInfluence
from regard.audits.leaks.probes import Probes, build_probes, probe
from regard.audits.leaks.search import LeakSearch
from regard.audits.leaks.truncation import leaks_by_truncation
from regard.audits.notes import Notes

CUT_DRAWS = 2
"The first draws, of either sign, are tested by a row cut short too."


def find_hidden_leaks(search: LeakSearch, evaluation: ForwardMode, length: int) -> list[Leak]:
    """Leaks that only other weights show; of fixed zeros only where no parameter opens one."""
    notes = search.notes
    if evaluation.audited.module is None:
        notes.add_unchecked("structural mode: a callable without its module shows no parameters")
        return []
    rows = search.rows(length, count=length)
    probes = build_probes(
        search.subject, rows, search.permission.reachable(length), search.generator(length)
    )
    for modes in (structural_modes, lambda mode: modes_without_zeros(mode, rows[:1])):
        for number, mode in enumerate(modes(evaluation)):
            try:
                leaks = _leaks_in(mode, probes, search, cut=number < CUT_DRAWS)
            except ForwardError as problem:
                notes.add_unchecked(f"{mode.name}, length {length}: {problem}")
                continue
            if leaks:
                return leaks
    return []


def _leaks_in(mode: ForwardMode, probes: Probes, search: LeakSearch, *, cut: bool) -> list[Leak]:
    notes, length = search.notes, probes.changed.shape[1]
    where = f"{mode.name}, length {length}"
    if problem := why_incomparable(mode, probes.before[:1]):
        raise ForwardError(problem)
    mode = search.isolated(mode, length)
    # What only opens here is no doubt about the model as it is.
    aside = Notes()
    how, pairs = _shown(mode, probes, search, aside, cut=cut)
    for doubt in aside.doubts:
        notes.add_unchecked(doubt)
    notes.add_checked(where)
    if not pairs:
        return []

    def opens(part: ForwardMode) -> bool:
        return bool(_shown(part, probes, search, Notes(), cut=cut)[1])

    opens_with = tensors_that_open(mode, opens)
    by_zeros = mode.name in (WITHOUT_ZEROS, WITHOUT_ZEROS_TRAINING)
    by_zeros = by_zeros and bool(set(opens_with) & set(_zeros(mode)))
    opens_by: Literal["training", "no longer zero"] = "no longer zero" if by_zeros else "training"
    return [
        Leak(query, key, size, how, where, opens_with, opens_by)
        for (query, key), size in sorted(pairs.items())
    ]


def _shown(
    mode: ForwardMode, probes: Probes, search: LeakSearch, notes: Notes, *, cut: bool
) -> tuple[str, PairInfluence]:
    """What a probe shows, or a cut row: the length may be all that is seen."""
    how, pairs = probe(mode, probes, notes)
    if pairs or not cut:
        return how, pairs
    own, row = replace(search, notes=notes), probes.before[:1]
    return "truncation", leaks_by_truncation(own, mode, row, cuts=[row.shape[1] - 1])


def _zeros(mode: ForwardMode) -> Sequence[str]:
    assert mode.audited.module is not None
    return tuple(fixed_zeros(mode.audited.module))
