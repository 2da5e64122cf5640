"""The leak test: does an output depend on an input that the mask forbids?

Three methods, in every forward mode and at several lengths:

    perturbation   replace forbidden inputs; the output must not change
    truncation     cut the row; outputs that may not depend on the rest must not change
    gradient       d(output at i) / d(embedding j) must be zero for forbidden j

Not detectable: a mask value so negative that a forbidden weight is exactly zero (it leaks nothing),
and a leak that needs one particular token at two positions at once.

Shapes: i query, j key, t positions. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from regard.audits.findings import Leak
from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.modes import (
    CACHE,
    EVALUATION,
    MASK_OF_ONES,
    PADDED,
    PADDED_POSITIONS,
    RESERVED,
    SHIFTED_POSITIONS,
    TRAINING,
    TRUE_POSITIONS,
    WEIGHTS,
)
from regard.audits.forward.precision import why_incomparable
from regard.audits.leaks.gradient import leaks_by_gradient
from regard.audits.leaks.hidden import find_hidden_leaks
from regard.audits.leaks.layers import find_wide_layers
from regard.audits.leaks.permission import Permission
from regard.audits.leaks.perturbation import (
    InfluenceByMethod,
    PairInfluence,
    build_trials,
    leaks_by_perturbation,
    leaks_by_vocabulary_sweep,
    vocabulary_sweep,
)
from regard.audits.leaks.probes import build_probes, probe
from regard.audits.leaks.search import (
    LeakSearch,
    find_max_length,
    shortest_testable_length,
    why_untestable,
)
from regard.audits.leaks.truncation import leaks_by_truncation
from regard.audits.notes import Notes

DECISIVE = (EVALUATION, TRAINING, WEIGHTS, CACHE)
"No model is called clean whose outputs cannot be compared in one of these."
REQUIRED = (EVALUATION, TRAINING)
"Nor one that does not run in one of these; a model may lack the others."
TRUNCATED = (
    *(EVALUATION, TRAINING, MASK_OF_ONES, *PADDED),
    *(TRUE_POSITIONS, SHIFTED_POSITIONS, PADDED_POSITIONS),
)
"A padding mask tells the length of its row. Token types do not, of which a cut row has others."
SINGLE_LAYERS = (
    "each layer alone: influence travels through layers, and no submodule was found that is one "
    "layer, so only pairs that stay forbidden at any depth were tested"
)
TRAINING_LENGTHS = (5, 8, 15, 16, 17, 64)
"Beside the limit."
SWEEP_LENGTH = 3
SWEEP_BUDGET = 3e10
MAX_COUPLED_TRIALS = 40
"Rows that influence each other have to run one at a time."


def find_leaks(
    modes: dict[str, ForwardMode],
    permission: Permission,
    notes: Notes,
    *,
    seed: int = 0,
    lengths: Sequence[int] | None = None,
) -> list[Leak]:
    """Every forbidden (query, key) influence that was found, each pair once per length.

    `modes` come from `forward_modes`; `lengths` replaces the lengths that are tested.
    """
    subject = modes[EVALUATION].subject
    shortest = shortest_testable_length(subject, permission, lengths)
    wide = find_wide_layers(LeakSearch(subject, permission, notes, seed, 0.0), modes)
    if wide:
        return wide
    if shortest is None:
        if wide is not None:
            notes.add_checked(f"mask {permission.name}: forbids nothing to several layers")
        elif why := why_untestable(subject, permission):
            notes.add_doubt(why)
        else:
            notes.add_checked(f"mask {permission.name}: forbids nothing, so nothing can leak")
        return []
    try:
        outputs = modes[EVALUATION].outputs(subject.draw(1, shortest, torch.Generator()))
    except ForwardError as problem:
        notes.add_doubt(f"{EVALUATION}, length {shortest}: {problem}")
        return []
    cost = subject.flops_per_position(outputs.shape[-1])
    if wide is None and permission.grows_with_depth(shortest):
        notes.add_unchecked(SINGLE_LAYERS)
    search = LeakSearch(subject, permission, notes, seed, cost)
    if not lengths and permission.only_length is None:
        search = search.limited_to(find_max_length(search, modes[EVALUATION], shortest))
    further = search.further_lengths(shortest, lengths)
    found: dict[tuple[int, int, int], Leak] = {}
    for name, mode in modes.items():
        for length, leaks in _leaks_by_length(search, mode, shortest, further):
            for leak in leaks:
                found.setdefault((length, leak.query, leak.key), leak)
            if leaks and further:
                notes.add_unchecked(f"{name}, other lengths: it leaks at length {length} already")
            if leaks or notes.doubts:
                break
    if not found and not notes.doubts:
        for leak in _leaks_of_single_tokens(search, modes[EVALUATION]):
            found[0, leak.query, leak.key] = leak
    if not found and not notes.doubts:
        for leak in find_hidden_leaks(search, modes[EVALUATION], shortest):
            found[shortest, leak.query, leak.key] = leak
    if not found and not any(_depends_on_input(search, modes[name], shortest) for name in modes):
        notes.add_doubt("the outputs do not depend on the inputs at all, so no leak can show")
    return list(found.values())


def _first_length(name: str, shortest: int, search: LeakSearch) -> list[int]:
    """The first length to test; with padding a shorter one where the limit requires it."""
    limit = search.subject.max_length
    if name not in RESERVED or limit is None:
        return [shortest]
    length = min(shortest, limit - RESERVED[name])
    if length > 0 and search.permission.forbids(length):
        return [length]
    search.notes.add_unchecked(f"{name}: a limit of {limit} positions leaves none for padding")
    return []


def _leaks_by_length(
    search: LeakSearch, mode: ForwardMode, shortest: int, further: list[int]
) -> Iterator[tuple[int, list[Leak]]]:
    """All methods at the first length; probes at further ones, and all methods where one shows."""
    for length in _first_length(mode.name, shortest, search):
        yield length, leaks_at_length(search, mode, length)
    limit = further[:1] if mode.name in (TRAINING, WEIGHTS, CACHE) else []
    rest = [n for n in further[1:] if mode.name == TRAINING and n in TRAINING_LENGTHS]
    probed = further if mode.name == EVALUATION else limit + rest
    for length in probed:
        # Other noise each time: a path that training takes by chance is taken at some length.
        noisy = replace(mode, seed=mode.seed + length) if mode.training else mode
        yield length, _leaks_by_probe(search, noisy, length, is_limit=length == further[0])


def _leaks_by_probe(
    search: LeakSearch, mode: ForwardMode, length: int, *, is_limit: bool
) -> list[Leak]:
    notes, where = search.notes, f"{mode.name}, length {length}"
    rows = search.rows(length, count=search.probe_count(length))
    reachable = search.permission.reachable(length)
    probes = build_probes(search.subject, rows, reachable, search.generator(length))
    try:
        how, pairs = probe(search.isolated(mode, length), probes, notes)
        if pairs and (problem := why_incomparable(mode, rows[:1])):
            raise ForwardError(problem)
        cut = (
            leaks_by_truncation(search, mode, rows[:1])
            if is_limit and mode.name == EVALUATION
            else {}
        )
    except ForwardError as error:
        # A model may refuse some lengths; at its limit it has to run.
        add = notes.add_doubt if is_limit and mode.name in REQUIRED else notes.add_unchecked
        add(f"{where}: {error}")
        return []
    notes.add_checked(f"{where}: {len(rows)} probes")
    if not pairs:
        return _leaks({"truncation": cut}, where)
    # A row of its own may be what opens it: the pairs of the probe stand where others show nothing.
    return leaks_at_length(search, mode, length) or _leaks({how: pairs}, where)


def leaks_at_length(search: LeakSearch, mode: ForwardMode, length: int) -> list[Leak]:
    """All methods in one mode at one length."""
    notes, where = search.notes, f"{mode.name}, length {length}"
    base, generator = search.base(length), search.generator(length)
    reachable = search.permission.reachable(length)
    try:
        if problem := why_incomparable(mode, base):
            add = notes.add_doubt if mode.name in DECISIVE else notes.add_unchecked
            add(f"{where}: {problem}")
            return []
        mode = search.isolated(mode, length)
        rows = search.affordable_trials(length)
        if mode.companion is not None:
            rows = min(rows, MAX_COUPLED_TRIALS)
        trials = build_trials(search.subject, base, reachable, rows=rows, generator=generator)
        found = leaks_by_perturbation(mode, trials, reachable, notes)
    except ForwardError as error:
        add = notes.add_doubt if mode.name in REQUIRED else notes.add_unchecked
        add(f"{where}: {error}")
        return []
    notes.add_checked(f"{where}: {trials.describe(reachable)}")
    if sum(map(len, found.values())) == int((~reachable).sum()):
        return _leaks(found, where)  # every forbidden pair leaks: nothing is left to find
    if mode.name in (EVALUATION, TRAINING, WEIGHTS):
        found |= leaks_by_gradient(search, mode, base, reachable)
    if mode.name in TRUNCATED:
        truncation = leaks_by_truncation(search, mode, base)
        found["truncation"] = _unexplained(
            truncation, [pair for pairs in found.values() for pair in pairs]
        )
    return _leaks(found, where)


def _unexplained(truncation: PairInfluence, explained: Sequence[tuple[int, int]]) -> PairInfluence:
    """What truncation showed and no removed token explains."""
    last_key: dict[int, int] = {}
    for query, key in explained:
        last_key[query] = max(key, last_key.get(query, -1))
    return {pair: size for pair, size in truncation.items() if pair[1] > last_key.get(pair[0], -1)}


def _leaks(found: InfluenceByMethod, where: str) -> list[Leak]:
    """One leak per pair; its size is that of the first method that found it."""
    leaks: dict[tuple[int, int], Leak] = {}
    for how, pairs in found.items():
        for (query, key), size in sorted(pairs.items()):
            leaks.setdefault((query, key), Leak(query, key, size, how, where))
    return list(leaks.values())


def _depends_on_input(search: LeakSearch, mode: ForwardMode, length: int) -> bool:
    base = search.base(length)
    other = search.subject.draw_other(base, search.generator(length))
    try:
        mode = search.isolated(mode, length)
        return bool((mode.outputs(base) != mode.outputs(other)).any())
    except ForwardError:
        return False


def _leaks_of_single_tokens(search: LeakSearch, mode: ForwardMode) -> list[Leak]:
    """Leaks that depend on one token: every id at every position of a short row."""
    subject, notes = search.subject, search.notes
    length = min(SWEEP_LENGTH, subject.max_length or SWEEP_LENGTH)
    if not subject.vocabulary or not search.permission.forbids(length):
        return []
    reachable = search.permission.reachable(length)
    rows = min(subject.vocabulary, search.affordable_trials(length, budget=SWEEP_BUDGET))
    generator = search.generator(length)
    try:
        if search.isolated(mode, length).companion is not None:
            notes.add_unchecked("single tokens: rows of a batch influence each other")
            return []
        sweep = vocabulary_sweep(subject, reachable, rows=rows, generator=generator)
        found = leaks_by_vocabulary_sweep(mode, sweep, reachable, notes)
    except ForwardError as problem:
        notes.add_unchecked(f"single tokens, length {length}: {problem}")
        return []
    add = notes.add_checked if rows == subject.vocabulary else notes.add_unchecked
    add(f"single tokens: {rows:,} of {subject.vocabulary:,} ids tried at a forbidden position")
    return _leaks(found, f"{mode.name}, length {length}, some tokens")
