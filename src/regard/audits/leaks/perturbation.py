"""Leaks by perturbation: replace inputs that an output may not depend on; it must not move.

Each trial replaces a set of inputs; every output that may depend on none of them must stay exactly
equal. Perturbed rows run in batches of the same shape and at the same batch index as unperturbed
ones, so a clean model shows no difference at all, not even rounding.

Shapes: n trials, t positions, i query, j key, f output features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import MAX_VALUES, ForwardMode
from regard.audits.forward.precision import recheck_in_float64, relative_change
from regard.audits.leaks.rows import special_ids
from regard.audits.notes import Notes
from regard.audits.subject import Subject

PairInfluence = dict[tuple[int, int], float]
"(query, key) -> influence"
InfluenceByMethod = dict[str, PairInfluence]
"Method of detection -> pairs; empty where there is no influence."

REPLACEMENTS = 3
"Tokens tried at each position, so that two with equal embeddings cannot conceal a leak."
MAX_SETS_ATTRIBUTED = 4
MAX_KEYS_ATTRIBUTED = 64


@dataclass(frozen=True)
class Trials:
    """Perturbed copies of one row: `changed` (n,t) is True where a token was replaced."""

    base: Tensor
    "(1,t) ids or (1,t,w) embeddings"
    changed: Tensor
    inputs: Tensor
    "(n,t) or (n,t,w)"

    def select(self, rows: Tensor) -> Trials:
        return Trials(self.base, self.changed[rows], self.inputs[rows])

    def unaffected(self, reachable: Tensor) -> Tensor:
        """(n,i): True where the output at i may depend on nothing that was changed."""
        return ~((self.changed.float() @ reachable.float().T) > 0)

    def describe(self, reachable: Tensor) -> str:
        """What was tried, of what there is to try."""
        single = self.changed.sum(dim=1) == 1
        keys = int(self.changed[single].any(dim=0).sum())
        queries = (~reachable).any(dim=1)
        return (
            f"{keys} of {int((~reachable).any(dim=0).sum())} forbidden positions perturbed "
            f"singly, {int((~single).sum())} sets jointly for {int(queries.sum())} queries"
        )


def build_trials(
    subject: Subject, base: Tensor, reachable: Tensor, *, rows: int, generator: torch.Generator
) -> Trials:
    """Single forbidden tokens, then all that are forbidden to one query; at most `rows` trials.

    Where not all are affordable the joint ones have priority: they miss fewer pairs.
    """
    forbidden = ~reachable
    distinct: Tensor = torch.unique(forbidden[forbidden.any(dim=1)], dim=0)
    joint = _subsample(distinct, max(1, rows * 3 // 4))
    singles = torch.eye(len(reachable), dtype=torch.bool)[forbidden.any(dim=0)]
    singles = _subsample(singles, max(1, rows - len(joint)))
    times = min(REPLACEMENTS, max(1, (rows - len(joint)) // max(1, len(singles))))
    return perturb_inputs(subject, base, torch.cat([singles.repeat(times, 1), joint]), generator)


def perturb_inputs(
    subject: Subject, base: Tensor, changed: Tensor, generator: torch.Generator
) -> Trials:
    rows = base.expand(len(changed), *base.shape[1:])
    other = subject.draw_other(rows, generator)
    return Trials(base, changed, _replace(changed, other, rows))


def _replace(changed: Tensor, other: Tensor, rows: Tensor) -> Tensor:
    where = changed.to(rows.device)
    return torch.where(where if rows.dim() == 2 else where[..., None], other, rows)


def _subsample(rows: Tensor, count: int) -> Tensor:
    """At most `count` rows, evenly spaced, first and last included."""
    if len(rows) <= count:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, count).round().long()]


Compare = Callable[[Tensor, Tensor], Tensor]
"(before, after), each (n,t,f) -> (n,t)"


def differs(before: Tensor, after: Tensor) -> Tensor:
    """Whether anything changed at all: a fast filter."""
    return (before != after).any(dim=-1).cpu()


def batch_size(mode: ForwardMode, row: Tensor) -> int:
    """Rows whose outputs and attention weights stay within MAX_VALUES."""
    values = mode.outputs(row).numel() + 8 * row.shape[1] ** 2
    return max(1, MAX_VALUES // values)


def compare_trials(mode: ForwardMode, trials: Trials, compare: Compare) -> Tensor:
    """The base row against each perturbed one, at equal batch index and batch shape."""
    size = batch_size(mode, trials.base)
    before: dict[int, Tensor] = {}
    found = []
    for rows in torch.split(trials.inputs, size):
        if len(rows) not in before:
            before[len(rows)] = _base_outputs(mode, trials.base, len(rows))
        found.append(compare(before[len(rows)], mode.outputs(rows)))
    return torch.cat(found)


def _base_outputs(mode: ForwardMode, base: Tensor, rows: int) -> Tensor:
    if mode.companion is not None:  # rows run one at a time: all would be equal
        return mode.outputs(base).expand(rows, -1, -1)
    return mode.outputs(base.expand(rows, *base.shape[1:]).contiguous())


def leaks_by_perturbation(
    mode: ForwardMode, trials: Trials, reachable: Tensor, notes: Notes
) -> InfluenceByMethod:
    """The forbidden pairs whose influence passes the float64 re-check."""
    unaffected = trials.unaffected(reachable)
    rows = (compare_trials(mode, trials, differs) & unaffected).any(dim=1)
    if not bool(rows.any()):
        return {}
    suspects, forbidden = trials.select(rows), unaffected[rows]

    def measure(other: ForwardMode) -> Tensor:
        return torch.where(forbidden, compare_trials(other, suspects, relative_change), 0.0)

    influence = recheck_in_float64(measure(mode), measure, mode=mode, notes=notes)
    if influence.doubt:
        notes.add_doubt(f"{mode.name}, length {trials.changed.shape[1]}: {influence.doubt}")
    return {influence.describe("perturbation"): _pairs(influence.sizes, suspects, mode)}


def _pairs(moved: Tensor, trials: Trials, mode: ForwardMode) -> PairInfluence:
    """Attribute each moved output to the key that moved it."""
    single = trials.changed.sum(dim=1) == 1
    keys = trials.changed.int().argmax(dim=1)
    alone = torch.zeros(trials.changed.shape[1], moved.shape[1], dtype=torch.float64)
    for key, row in zip(keys[single].tolist(), moved[single], strict=True):
        alone[key] = torch.maximum(alone[key], row)
    found = {(i, key): float(alone[key, i]) for key, i in alone.nonzero().tolist()}
    attributed = 0
    for row in ((moved > 0).any(dim=1) & ~single).nonzero().flatten().tolist():
        # Queries that no single token of this set has moved yet.
        left = (moved[row] > 0) & ~(alone[trials.changed[row]] > 0).any(dim=0)
        if not bool(left.any()):
            continue
        if attributed < MAX_SETS_ATTRIBUTED:
            attributed += 1
            found |= (
                single_pairs := _attribute(mode, trials, row, left.nonzero().flatten().tolist())
            )
            for i, _ in single_pairs:
                left[i] = False
        for i in left.nonzero().flatten().tolist():
            # No token does it alone: the first of the set is reported for all.
            found.setdefault((i, int(keys[row])), float(moved[row, i]))
    return found


def _attribute(mode: ForwardMode, trials: Trials, row: int, queries: list[int]) -> PairInfluence:
    """Which of the jointly replaced tokens move these queries alone."""
    keys = trials.changed[row].nonzero().flatten()[:MAX_KEYS_ATTRIBUTED]
    changed = torch.zeros(len(keys), trials.changed.shape[1], dtype=torch.bool)
    changed[torch.arange(len(keys)), keys] = True
    rows = trials.base.expand(len(keys), *trials.base.shape[1:])
    other = trials.inputs[row : row + 1].expand_as(rows)
    alone = Trials(trials.base, changed, _replace(changed, other, rows))
    moved = compare_trials(mode, alone, relative_change)
    return {
        (i, int(keys[n])): float(moved[n, i])
        for n in range(len(keys))
        for i in queries
        if float(moved[n, i]) > 1e-6
    }


def vocabulary_sweep(
    subject: Subject, reachable: Tensor, *, rows: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of short rows for a leak that depends on one token: (before, after, changed (t,)).

    Each position runs through the vocabulary in its own order, so every id occurs once as the input
    of each position, once as a forbidden input, and once as the replacement of one; special ids
    come first.
    """
    length = len(reachable)
    forbidden = ~reachable
    changed = forbidden[int(forbidden.sum(dim=1).float().argsort()[length // 2])]
    special = torch.tensor(special_ids(subject))
    orders = [_order(subject.vocabulary, special.roll(n), generator) for n in range(length)]
    before = torch.stack(orders, dim=1)[:rows].to(subject.device)
    return before, _replace(changed[None], subject.draw_other(before, generator), before), changed


def _order(vocabulary: int, first: Tensor, generator: torch.Generator) -> Tensor:
    drawn = torch.randperm(vocabulary, generator=generator)
    return torch.cat([first, drawn[~torch.isin(drawn, first)]])


def leaks_by_vocabulary_sweep(
    mode: ForwardMode,
    rows: tuple[Tensor, Tensor, Tensor],
    reachable: Tensor,
    notes: Notes,
) -> InfluenceByMethod:
    """Forbidden influence that only some tokens have."""
    before, after, changed = rows
    unaffected = ~(reachable & changed[None]).any(dim=1)

    def moved_at_all(one: Tensor, two: Tensor) -> Tensor:
        return differs(one[:, unaffected], two[:, unaffected])

    suspects = _compare_pairs(mode, before, after, moved_at_all).any(dim=1)
    if not bool(suspects.any()):
        return {}

    def measure(other: ForwardMode) -> Tensor:
        moved = _compare_pairs(other, before[suspects], after[suspects], relative_change)
        return torch.where(unaffected, moved, 0.0)

    influence = recheck_in_float64(measure(mode), measure, mode=mode, notes=notes)
    if influence.doubt:
        notes.add_doubt(f"{mode.name}, single tokens: {influence.doubt}")
    moved, key = influence.sizes.amax(dim=0), int(changed.nonzero()[0])
    pairs = {(i, key): float(moved[i]) for i in moved.nonzero().flatten().tolist()}
    return {influence.describe("perturbation"): pairs}


def _compare_pairs(mode: ForwardMode, before: Tensor, after: Tensor, compare: Compare) -> Tensor:
    size = batch_size(mode, before[:1])
    pairs = zip(torch.split(before, size), torch.split(after, size), strict=True)
    return torch.cat([compare(mode.outputs(one), mode.outputs(two)) for one, two in pairs])
