"""The causality audit: does an output depend on an input that the mask forbids it to see?

Three instruments, in every way the model can be run and at several lengths:

    perturbation   replace forbidden inputs; the output must not move
    truncation     cut the row; outputs that may not see the rest must not move
    gradient       d(output at i) / d(token vector j) must be zero for forbidden j

What none of them can see: a penalty so large that a forbidden weight is exactly zero (it leaks
nothing), and a leak that needs one particular token at two places at once.

Shapes: i query, j key, t places. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardMode, RefusedError
from regard.audits.forward.modes import CACHE, EVALUATION, PADDED, SHAKEN, TRAINING, WEIGHTS
from regard.audits.forward.precision import unsteady
from regard.audits.leaks.gradient import leaks_by_gradient
from regard.audits.leaks.permission import Permission
from regard.audits.leaks.perturbation import (
    ByInstrument,
    Pairs,
    every_id,
    leaks_by_perturbation,
    leaks_of_ids,
    trials_for,
)
from regard.audits.leaks.search import LeakSearch, longest_taken, shortest_telling, why_untold
from regard.audits.leaks.truncation import leaks_by_truncation
from regard.audits.notes import Notes

DECISIVE = (EVALUATION, TRAINING, WEIGHTS, CACHE)
"No model is called clean whose outputs cannot be compared in one of these."
NEEDED = (EVALUATION, TRAINING)
"Nor one that does not run in one of these; the others are extras that a model may refuse."
WITHIN_A_LAYER = (
    "each layer alone: influence travels through layers, so only pairs that no number of them may "
    "join were tested"
)
PLACES_FOR_IDS = 4
ID_EFFORT = 4e10
COUPLED_TRIALS = 40
"Rows that feel each other have to be run one by one."


@dataclass(frozen=True)
class Leak:
    """An output at `query` that reacts to the input at `key`, which it may not see."""

    query: int
    key: int
    influence: float
    "Relative to the size of the outputs or, for a gradient, to the query's allowed influence."
    how: str
    """perturbation, truncation (the key is the first place cut off) or gradient; `, in float32
    only` where float64 does not show it"""
    where: str
    "The way it was run and the length of the row."


def find_leaks(
    ways: dict[str, ForwardMode],
    permission: Permission,
    notes: Notes,
    *,
    seed: int = 0,
    lengths: Sequence[int] | None = None,
) -> list[Leak]:
    """Every forbidden (query, key) influence that was found, each pair once a length.

    `ways` come from `ways_of`; `lengths` replaces the lengths that are tried.
    """
    subject = ways[EVALUATION].subject
    shortest = shortest_telling(subject, permission, lengths)
    if shortest is None:
        if why := why_untold(subject, permission):
            notes.doubt(why)
        else:
            notes.did(f"mask {permission.name}: forbids nothing, so nothing can leak")
        return []
    try:
        outputs = ways[EVALUATION].outputs(subject.draw(1, shortest, torch.Generator()))
    except RefusedError as problem:
        notes.doubt(f"{EVALUATION}, length {shortest}: {problem}")
        return []
    cost = subject.cost_of_place(outputs.shape[-1])
    if permission.widens(shortest):
        notes.could_not(WITHIN_A_LAYER)
    search = LeakSearch(subject, permission, notes, seed, cost)
    if not lengths and permission.only_length is None:
        search = search.within(longest_taken(search, ways[EVALUATION], shortest))
    longer = search.longer_than(shortest, lengths)
    found: dict[tuple[int, int, int], Leak] = {}
    for name, view in ways.items():
        for length in (*_first(name, shortest, search), *_further(name, longer)):
            leaks = examine(search, view, length)
            for leak in leaks:
                found.setdefault((length, leak.query, leak.key), leak)
            if leaks and longer[-1:] > [length]:
                notes.could_not(f"{name}, longer rows: it leaks at length {length} already")
            if leaks or notes.doubts:
                break
    if not found and not notes.doubts:
        for leak in _examine_ids(search, ways[EVALUATION]):
            found[0, leak.query, leak.key] = leak
    if not found and not any(_reacts(search, ways[name], shortest) for name in ways):
        notes.doubt("the outputs do not react to the inputs at all, so nothing can be seen")
    return list(found.values())


def _first(name: str, shortest: int, search: LeakSearch) -> list[int]:
    """The first length to try; with padding a shorter one where the model has no more room."""
    longest = search.subject.longest
    if name not in PADDED or longest is None:
        return [shortest]
    length = min(shortest, longest - sum(PADDED[name]))
    if length > 0 and search.permission.forbids(length):
        return [length]
    search.notes.could_not(f"{name}: rows of {longest} places leave no room for it")
    return []


def _further(name: str, longer: list[int]) -> list[int]:
    if name == EVALUATION:
        return longer
    return longer[-1:] if name in (TRAINING, WEIGHTS, CACHE) else []


def examine(search: LeakSearch, view: ForwardMode, length: int) -> list[Leak]:
    """All instruments in one way at one length."""
    notes, where = search.notes, f"{view.name}, length {length}"
    base, generator = search.base(length), search.generator(length)
    reachable = search.permission.reachable(length)
    try:
        if trouble := unsteady(view, base):
            told = notes.doubt if view.name in DECISIVE else notes.could_not
            told(f"{where}: {trouble}")
            return []
        view = apart_from_others(view, base, generator)
        rows = search.rows(length)
        if view.companion is not None:
            rows = min(rows, COUPLED_TRIALS)
        trials = trials_for(search.subject, base, reachable, rows=rows, generator=generator)
        found = leaks_by_perturbation(view, trials, reachable, notes)
    except RefusedError as problem:
        told = notes.doubt if view.name in NEEDED else notes.could_not
        told(f"{where}: {problem}")
        return []
    notes.did(f"{where}: {trials.told(reachable)}")
    if sum(map(len, found.values())) == int((~reachable).sum()):
        return _leaks(found, where)  # every forbidden pair leaks: nothing is left to find
    if view.name in (EVALUATION, TRAINING, WEIGHTS, SHAKEN):
        found |= leaks_by_gradient(search, view, base, reachable)
    if view.name in (EVALUATION, TRAINING):
        cut = leaks_by_truncation(search, view, base)
        found["truncation"] = _unexplained(
            cut, [pair for pairs in found.values() for pair in pairs]
        )
    return _leaks(found, where)


def _unexplained(cut: Pairs, named: Sequence[tuple[int, int]]) -> Pairs:
    """What cutting showed and no token that was cut off explains."""
    farthest: dict[int, int] = {}
    for query, key in named:
        farthest[query] = max(key, farthest.get(query, -1))
    return {pair: size for pair, size in cut.items() if pair[1] > farthest.get(pair[0], -1)}


def _leaks(found: ByInstrument, where: str) -> list[Leak]:
    """One leak a pair: the first instrument that saw it gives its size."""
    leaks: dict[tuple[int, int], Leak] = {}
    for how, pairs in found.items():
        for (query, key), size in sorted(pairs.items()):
            leaks.setdefault((query, key), Leak(query, key, size, how, where))
    return list(leaks.values())


def apart_from_others(view: ForwardMode, base: Tensor, generator: torch.Generator) -> ForwardMode:
    """The view itself, or one that runs rows singly where rows of a batch feel each other."""
    other = view.subject.draw(2, base.shape[1], generator).to(base.dtype)
    before = view.outputs(torch.cat([base, other[:1]]))[:1]
    after = view.outputs(torch.cat([base, other[1:]]))[:1]
    return replace(view, companion=other[:1]) if bool((before != after).any()) else view


def _reacts(search: LeakSearch, view: ForwardMode, length: int) -> bool:
    base = search.base(length)
    other = search.subject.draw_other(base, search.generator(length))
    try:
        return bool((view.outputs(base) != view.outputs(other)).any())
    except RefusedError:
        return False


def _examine_ids(search: LeakSearch, view: ForwardMode) -> list[Leak]:
    """A leak that only some token opens: every id at every place of a short row."""
    subject, notes = search.subject, search.notes
    places = min(PLACES_FOR_IDS, subject.longest or PLACES_FOR_IDS)
    if not subject.vocabulary or not search.permission.forbids(places):
        return []
    reachable = search.permission.reachable(places)
    rows = min(subject.vocabulary, search.rows(places, effort=ID_EFFORT))
    generator = search.generator(places)
    try:
        base = search.base(places)
        if apart_from_others(view, base, generator).companion is not None:
            notes.could_not("single tokens: rows of a batch feel each other")
            return []
        ids = every_id(subject, reachable, rows=rows, generator=generator)
        found = leaks_of_ids(view, ids, reachable, notes)
    except RefusedError as problem:
        notes.could_not(f"single tokens, length {places}: {problem}")
        return []
    told = notes.did if rows == subject.vocabulary else notes.could_not
    told(f"single tokens: {rows:,} of {subject.vocabulary:,} ids tried at a forbidden place")
    return _leaks(found, f"{view.name}, length {places}, some tokens")
