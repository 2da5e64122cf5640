"""Perturbation: change tokens that a place may not see, and look whether its output moves.

Each trial replaces a set of inputs; every output that may see none of them has to stay exactly as
it was. Changed rows run beside unchanged ones of the same shape, at the same place of the batch,
so that a clean model shows no difference at all, not even rounding.

Shapes: n trials, t places, i query, j key, f numbers a place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import NUMBERS_AT_ONCE, ForwardMode
from regard.audits.forward.precision import change, second_look
from regard.audits.notes import Notes
from regard.audits.subject import Subject

Pairs = dict[tuple[int, int], float]
"(query, key) -> influence"
ByInstrument = dict[str, Pairs]
"How it was seen -> what was seen; empty where nothing stands."

REPLACEMENTS = 3
"Different tokens tried at each place, so that two that embed alike cannot hide a leak."
UNRAVELLED_TRIALS = 4
UNRAVELLED_KEYS = 64


@dataclass(frozen=True)
class Trials:
    """Changed copies of one row: `changed` (n,t) is True where a token was replaced."""

    base: Tensor
    "(1,t) ids or (1,t,w) vectors"
    changed: Tensor
    inputs: Tensor
    "(n,t) or (n,t,w)"

    def only(self, rows: Tensor) -> Trials:
        return Trials(self.base, self.changed[rows], self.inputs[rows])

    def untouched(self, reachable: Tensor) -> Tensor:
        """(n,i): True where the output at i may depend on nothing that was changed."""
        return ~((self.changed.float() @ reachable.float().T) > 0)

    def told(self, reachable: Tensor) -> str:
        """What was tried, of what there is to try."""
        single = self.changed.sum(dim=1) == 1
        keys = int(self.changed[single].any(dim=0).sum())
        blind = (~reachable).any(dim=1)
        return (
            f"{keys} of {int((~reachable).any(dim=0).sum())} forbidden places changed singly, "
            f"{int((~single).sum())} sets together for {int(blind.sum())} queries"
        )


def trials_for(
    subject: Subject, base: Tensor, reachable: Tensor, *, rows: int, generator: torch.Generator
) -> Trials:
    """Single forbidden tokens, then all that one query may not see; at most `rows` trials.

    Where not all are affordable the second sort goes first: it misses fewer pairs.
    """
    forbidden = ~reachable
    distinct: Tensor = torch.unique(forbidden[forbidden.any(dim=1)], dim=0)
    together = _spread(distinct, max(1, rows * 3 // 4))
    singles = torch.eye(len(reachable), dtype=torch.bool)[forbidden.any(dim=0)]
    singles = _spread(singles, max(1, rows - len(together)))
    times = min(REPLACEMENTS, max(1, (rows - len(together)) // max(1, len(singles))))
    return replaced(subject, base, torch.cat([singles.repeat(times, 1), together]), generator)


def replaced(subject: Subject, base: Tensor, changed: Tensor, generator: torch.Generator) -> Trials:
    rows = base.expand(len(changed), *base.shape[1:])
    other = subject.draw_other(rows, generator)
    return Trials(base, changed, _choose(changed, other, rows))


def _choose(changed: Tensor, other: Tensor, rows: Tensor) -> Tensor:
    where = changed.to(rows.device)
    return torch.where(where if rows.dim() == 2 else where[..., None], other, rows)


def _spread(rows: Tensor, most: int) -> Tensor:
    """At most so many rows, evenly taken, first and last among them."""
    if len(rows) <= most:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, most).round().long()]


Compare = Callable[[Tensor, Tensor], Tensor]
"(before, after), each (n,t,f) -> (n,t)"


def differs(before: Tensor, after: Tensor) -> Tensor:
    """Whether anything moved at all: one quick look at many numbers."""
    return (before != after).any(dim=-1).cpu()


def rows_at_once(view: ForwardMode, row: Tensor) -> int:
    """As many as keep outputs and attention weights in reach."""
    numbers = view.outputs(row).numel() + 8 * row.shape[1] ** 2
    return max(1, NUMBERS_AT_ONCE // numbers)


def compare_rows(view: ForwardMode, trials: Trials, compare: Compare) -> Tensor:
    """The unchanged row against each changed one, at the same place of the same shape of batch."""
    at_once = rows_at_once(view, trials.base)
    before: dict[int, Tensor] = {}
    found = []
    for rows in torch.split(trials.inputs, at_once):
        if len(rows) not in before:
            before[len(rows)] = _unchanged(view, trials.base, len(rows))
        found.append(compare(before[len(rows)], view.outputs(rows)))
    return torch.cat(found)


def _unchanged(view: ForwardMode, base: Tensor, rows: int) -> Tensor:
    if view.companion is not None:  # rows are run one by one: all would be the same
        return view.outputs(base).expand(rows, -1, -1)
    return view.outputs(base.expand(rows, *base.shape[1:]).contiguous())


def leaks_by_perturbation(
    view: ForwardMode, trials: Trials, reachable: Tensor, notes: Notes
) -> ByInstrument:
    """The forbidden pairs whose influence stands the second look."""
    untouched = trials.untouched(reachable)
    rows = (compare_rows(view, trials, differs) & untouched).any(dim=1)
    if not bool(rows.any()):
        return {}
    suspects, forbidden = trials.only(rows), untouched[rows]

    def measure(other: ForwardMode) -> Tensor:
        return torch.where(forbidden, compare_rows(other, suspects, change), 0.0)

    stands = second_look(measure(view), measure, view=view, notes=notes)
    if stands.doubt:
        notes.doubt(f"{view.name}, length {trials.changed.shape[1]}: {stands.doubt}")
    return {stands.told("perturbation"): _pairs(stands.sizes, suspects, view)}


def _pairs(moved: Tensor, trials: Trials, view: ForwardMode) -> Pairs:
    """Each moved output with the key that moved it."""
    single = trials.changed.sum(dim=1) == 1
    keys = trials.changed.int().argmax(dim=1)
    alone = torch.zeros(trials.changed.shape[1], moved.shape[1], dtype=torch.float64)
    for key, row in zip(keys[single].tolist(), moved[single], strict=True):
        alone[key] = torch.maximum(alone[key], row)
    found = {(i, key): float(alone[key, i]) for key, i in alone.nonzero().tolist()}
    unravelled = 0
    for row in ((moved > 0).any(dim=1) & ~single).nonzero().flatten().tolist():
        # Queries that no single token of this set has moved yet.
        left = (moved[row] > 0) & ~(alone[trials.changed[row]] > 0).any(dim=0)
        if not bool(left.any()):
            continue
        if unravelled < UNRAVELLED_TRIALS:
            unravelled += 1
            found |= (
                single_pairs := _unravel(view, trials, row, left.nonzero().flatten().tolist())
            )
            for i, _ in single_pairs:
                left[i] = False
        for i in left.nonzero().flatten().tolist():
            # No token does it alone: the first of those that do it together stands for them.
            found.setdefault((i, int(keys[row])), float(moved[row, i]))
    return found


def _unravel(view: ForwardMode, trials: Trials, row: int, queries: list[int]) -> Pairs:
    """Which of the tokens replaced together move these queries alone."""
    keys = trials.changed[row].nonzero().flatten()[:UNRAVELLED_KEYS]
    changed = torch.zeros(len(keys), trials.changed.shape[1], dtype=torch.bool)
    changed[torch.arange(len(keys)), keys] = True
    rows = trials.base.expand(len(keys), *trials.base.shape[1:])
    other = trials.inputs[row : row + 1].expand_as(rows)
    alone = Trials(trials.base, changed, _choose(changed, other, rows))
    moved = compare_rows(view, alone, change)
    return {
        (i, int(keys[n])): float(moved[n, i])
        for n in range(len(keys))
        for i in queries
        if float(moved[n, i]) > 1e-6
    }


def every_id(
    subject: Subject, reachable: Tensor, *, rows: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of short rows for a leak that hangs on one token: (before, after, changed (t,)).

    Each place goes through the vocabulary in its own order, so every id is once what a place
    reads, once what it may not see, and once what that becomes.
    """
    places = len(reachable)
    forbidden = ~reachable
    changed = forbidden[int(forbidden.sum(dim=1).float().argsort()[places // 2])]
    orders = [torch.randperm(subject.vocabulary, generator=generator) for _ in range(places)]
    before = torch.stack(orders, dim=1)[:rows].to(subject.device)
    return before, _choose(changed[None], subject.draw_other(before, generator), before), changed


def leaks_of_ids(
    view: ForwardMode,
    rows: tuple[Tensor, Tensor, Tensor],
    reachable: Tensor,
    notes: Notes,
) -> ByInstrument:
    """Forbidden influence that only some token has."""
    before, after, changed = rows
    free = ~(reachable & changed[None]).any(dim=1)
    suspects = (_compare_both(view, before, after, differs) & free).any(dim=1)
    if not bool(suspects.any()):
        return {}

    def measure(other: ForwardMode) -> Tensor:
        moved = _compare_both(other, before[suspects], after[suspects], change)
        return torch.where(free, moved, 0.0)

    stands = second_look(measure(view), measure, view=view, notes=notes)
    if stands.doubt:
        notes.doubt(f"{view.name}, single tokens: {stands.doubt}")
    moved, key = stands.sizes.amax(dim=0), int(changed.nonzero()[0])
    pairs = {(i, key): float(moved[i]) for i in moved.nonzero().flatten().tolist()}
    return {stands.told("perturbation"): pairs}


def _compare_both(view: ForwardMode, before: Tensor, after: Tensor, compare: Compare) -> Tensor:
    at_once = rows_at_once(view, before[:1])
    pairs = zip(torch.split(before, at_once), torch.split(after, at_once), strict=True)
    return torch.cat([compare(view.outputs(one), view.outputs(two)) for one, two in pairs])
