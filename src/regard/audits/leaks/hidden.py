"""Hidden leaks: those that the model's own weights conceal, and training opens.

Searched where its own weights show none, with structural values (`forward/structural.py`); then
the fewest tensors are looked for whose new values open the leak.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.audits.findings import Leak
from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.modes import WITHOUT_ZEROS, modes_without_zeros, structural_modes
from regard.audits.forward.opening import tensors_that_open
from regard.audits.forward.precision import why_incomparable
from regard.audits.forward.structural import fixed_zeros
from regard.audits.leaks.probes import Probes, build_probes, probe
from regard.audits.leaks.search import LeakSearch
from regard.audits.notes import Notes


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
        for mode in modes(evaluation):
            try:
                leaks = _leaks_in(mode, probes, search)
            except ForwardError as problem:
                notes.add_unchecked(f"{mode.name}, length {length}: {problem}")
                continue
            if leaks:
                return leaks
    return []


def _leaks_in(mode: ForwardMode, probes: Probes, search: LeakSearch) -> list[Leak]:
    notes, length = search.notes, probes.changed.shape[1]
    where = f"{mode.name}, length {length}"
    if problem := why_incomparable(mode, probes.before[:1]):
        raise ForwardError(problem)
    mode = search.isolated(mode, length)
    # What only opens here is no doubt about the model as it is.
    aside = Notes()
    how, pairs = probe(mode, probes, aside)
    for doubt in aside.doubts:
        notes.add_unchecked(doubt)
    notes.add_checked(where)
    if not pairs:
        return []
    opens_with = tensors_that_open(mode, lambda part: bool(probe(part, probes, Notes())[1]))
    trained = mode.name != WITHOUT_ZEROS or not set(opens_with) & set(_zeros(mode))
    return [
        Leak(query, key, size, how, where, opens_with, "training" if trained else "no longer zero")
        for (query, key), size in sorted(pairs.items())
    ]


def _zeros(mode: ForwardMode) -> Sequence[str]:
    assert mode.audited.module is not None
    return tuple(fixed_zeros(mode.audited.module))
