"""What every step of one search for leaks shares: the subject, the rule, lengths and effort.

The effort is counted in operations, not in seconds, so that an audit does the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardMode, RefusedError
from regard.audits.leaks.permission import Permission
from regard.audits.notes import Notes
from regard.audits.subject import Subject
from regard.core.errors import UserError

SHORT = (12, 24, 48, 96, 4, 3, 2)
"The first of these at which the mask forbids something is tried in every way."
LONGER = (37, 131)
LONGEST = 1024
"Attention grows with the square of the length."
EFFORT = 1.5e10
"Operations to spend on one way at one length: a fraction of a second."
COST_OF_PAIR = 200
"Roughly, for one query and one key in a small model."
FEWEST_TRIALS = 8
DEAREST = 20 * EFFORT
"A length is left out where even the fewest trials cost more."
SAFE_ON_CUDA = 64
"Beyond a model's unknown limit CUDA does not raise, it ends."


@dataclass(frozen=True)
class LeakSearch:
    """One search: what is looked for in what, and how hard."""

    subject: Subject
    permission: Permission
    notes: Notes
    seed: int
    cost_of_place: float

    def generator(self, length: int) -> torch.Generator:
        return torch.Generator().manual_seed(1_000_003 * self.seed + length)

    def base(self, length: int) -> Tensor:
        """One row: the person's own where it has this length."""
        sample = self.subject.sample
        if sample is not None and sample.shape[1] == length:
            return sample[:1].to(self.subject.device)
        return self.subject.draw(1, length, self.generator(length))

    def rows(self, length: int, *, effort: float = EFFORT) -> int:
        """Trials that the effort pays for; each runs twice."""
        cost = self.cost_of_place + COST_OF_PAIR * length
        return max(FEWEST_TRIALS, int(effort / (2 * length * cost)))

    def within(self, longest: int) -> LeakSearch:
        """The same search in rows of at most so many places."""
        return replace(self, subject=replace(self.subject, longest=longest))

    def longer_than(self, shortest: int, wanted: Sequence[int] | None) -> list[int]:
        """Further lengths to try, in order; those left out are noted."""
        if self.permission.only_length is not None:
            self.notes.could_not("other lengths: the mask is a table of one size")
            return []
        if wanted is not None:
            return sorted(length for length in set(wanted) if length > shortest)
        longest = self.subject.longest
        assert longest is not None
        if longest > LONGEST:
            self.notes.could_not(f"rows of more than {LONGEST:,} places: it takes {longest:,}")
            longest = LONGEST
        wanted = [n for n in LONGER if 3 * n <= 2 * longest] + [longest]
        affordable = DEAREST / (2 * FEWEST_TRIALS * self.cost_of_place)
        for length in wanted:
            if not self.permission.covers(length):
                self.notes.could_not(f"length {length}: the mask cannot be written out")
            elif length > affordable:
                self.notes.could_not(f"length {length}: too dear for a model of this size")
        return [n for n in wanted if shortest < n <= affordable and self.permission.covers(n)]


def longest_taken(search: LeakSearch, view: ForwardMode, shortest: int) -> int:
    """The longest row that a model takes: what it says itself, if that is so, or what runs."""

    def refusal(length: int) -> str:
        try:
            view.outputs(view.subject.draw(1, length, torch.Generator()))
        except RefusedError as problem:
            return str(problem)
        return ""

    low, said = shortest, search.subject.longest
    if said is None:
        high = max(low, SAFE_ON_CUDA if view.subject.device.type == "cuda" else LONGER[-1])
    else:
        high = max(search.longer_than(shortest, None), default=low)
    if high == low or not (why := refusal(high)):
        if said is None:
            told = f"rows of more than {high} places: how many it takes is not known"
            search.notes.could_not(told)
        return said or high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refusal(middle) else (middle, high)
    search.notes.could_not(f"rows of more than {low} places: {why}")
    return low


def shortest_telling(
    subject: Subject, permission: Permission, wanted: Sequence[int] | None
) -> int | None:
    """The first length at which something is forbidden; None where no length fits or tells."""
    if wanted:
        _refuse_unfit(subject, permission, wanted)
    if permission.only_length is not None:
        candidates: Sequence[int] = (permission.only_length,)
    elif wanted:
        candidates = sorted(wanted)
    else:
        own = () if subject.sample is None else (subject.sample.shape[1],)
        candidates = (*own, *SHORT)
    for length in candidates:
        if subject.takes(length) and permission.forbids(length):
            return length
    if not any(permission.covers(length) for length in candidates):
        permission.at(candidates[0])  # says itself what is wrong with it
        raise UserError(
            f"the mask {permission.name} gives no (t,t) table for rows of {candidates[0]} places",
            topic="audit",
            hint="Give a function from t to a (t,t) table of booleans, True = may attend.",
        )
    return None


def why_untold(subject: Subject, permission: Permission) -> str:
    """Why no length tells anything; empty where the mask forbids nothing indeed."""
    lengths = [n for n in (permission.only_length, *SHORT) if n and permission.covers(n)]
    if any(permission.forbids(n) for n in lengths):
        fits = "one place" if subject.longest == 1 else f"{subject.longest} places"
        return f"the model takes {fits}, and there the mask {permission.name} forbids nothing"
    if any(permission.widens(n) for n in lengths):
        return (
            f"through several layers the mask {permission.name} lets every place feel every "
            "other, so whether each layer keeps to it does not show in the outputs"
        )
    return ""


def _refuse_unfit(subject: Subject, permission: Permission, wanted: Sequence[int]) -> None:
    """Lengths that a person asked for and that could tell nothing."""
    tells = any(permission.forbids(length) for length in SHORT)
    for length in wanted:
        if not subject.takes(length):
            what = f"the model takes rows of 1 to {subject.longest or 'any number of'} places"
        elif permission.only_length not in (None, length):
            what = f"the mask is a table for rows of {permission.only_length} places"
        elif tells and permission.covers(length) and not permission.forbids(length):
            what = f"the mask {permission.name} forbids nothing there"
        else:
            continue
        raise UserError(
            f"rows of length {length} cannot be audited: {what}",
            topic="audit",
            hint="Give another length, or none.",
        )
