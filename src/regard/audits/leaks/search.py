"""Shared state of one search for leaks: subject, mask, lengths and compute budget.

The budget is counted in operations, not in seconds, so an audit does the same work on every
machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.modes import EVALUATION
from regard.audits.forward.noise import DrawLog, why_noiseless
from regard.audits.leaks.batch_coupling import MANY_ROWS, is_coupled
from regard.audits.leaks.lengths import MAX_LENGTH, probe_lengths
from regard.audits.leaks.permission import Permission
from regard.audits.leaks.rows import varied_rows
from regard.audits.notes import Notes
from regard.audits.subject import Subject
from regard.core.errors import UserError

FEW_ROWS = 3
"That are asked whether they influence each other, in modes other than evaluation."
SHORT_LENGTHS = (12, 24, 48, 96, 4, 3, 2)
"The first of these at which the mask forbids something is tested in every mode."
MAX_UNKNOWN_LENGTH = 259
"Tried where the model's limit is not known."
BUDGET = 1.5e10
"Operations for one mode at one length: a fraction of a second."
COST_PER_PAIR = 200
"Operations for one query and one key, roughly, in a small model."
PROBED_POSITIONS = 360
"Of all rows of one probe."
MIN_PROBES = 4
PROBE_PASSES = 5
"Cost of a probe in forward passes: two rows, one of them with its gradient."
PROBE_BUDGET = 4e10
"Operations for the probes of all lengths; the limit is tried in any case."
MIN_TRIALS = 8
MAX_COST = 20 * BUDGET
"A length is skipped where even the minimum of trials costs more."
MAX_LENGTH_ON_CUDA = 64
"Beyond a model's unknown limit CUDA does not raise an exception, it aborts."


@dataclass(frozen=True)
class LeakSearch:
    """What is searched for leaks, against which mask, with which seed and cost."""

    subject: Subject
    permission: Permission
    notes: Notes
    seed: int
    flops_per_position: float
    coupled: dict[str, bool] = field(default_factory=dict)
    "Modes whose rows influence each other, as found at the first length."
    noiseless: set[str] = field(default_factory=set)
    "Modes whose inputs decide how much noise is drawn."

    def isolated(self, mode: ForwardMode, length: int) -> ForwardMode:
        """The mode, running rows one at a time where rows of a batch influence each other, and
        without noise where they decide how much of it there is."""
        if mode.name not in self.coupled:
            # Rows that are coupled in evaluation mode are so in any other.
            evaluated = self.coupled.get(EVALUATION, False)
            count = MANY_ROWS if mode.name == EVALUATION else FEW_ROWS
            rows, draws = self.subject.draw(count, length, self.generator(length)), DrawLog()
            recorded = replace(mode, draws=draws) if mode.training else mode
            self.coupled[mode.name] = is_coupled(recorded, rows) or evaluated
            if draws.varies:
                self.notes.add_unchecked(why_noiseless(mode.name))
                self.noiseless.add(mode.name)
                quiet = replace(mode, noiseless=True)
                self.coupled[mode.name] = is_coupled(quiet, rows) or evaluated
        if mode.name in self.noiseless:
            mode = replace(mode, noiseless=True)
        if not self.coupled[mode.name]:
            return mode
        return replace(mode, companion=self.subject.draw(1, length, self.generator(length)))

    def generator(self, length: int) -> torch.Generator:
        return torch.Generator().manual_seed(1_000_003 * self.seed + length)

    def base(self, length: int) -> Tensor:
        """One row: the user's sample where it has this length, else random."""
        sample = self.subject.sample
        if sample is not None and sample.shape[1] == length:
            return sample[:1].to(self.subject.device)
        return self.subject.draw(1, length, self.generator(length))

    def rows(self, length: int, *, count: int) -> Tensor:
        """Rows of every kind for probes, `base` first."""
        rows = varied_rows(self.subject, length, count, self.generator(length))
        rows[:1] = self.base(length)
        return rows

    def affordable_trials(self, length: int, *, budget: float = BUDGET) -> int:
        """Trials within the budget; each runs twice."""
        cost = self.flops_per_position + COST_PER_PAIR * length
        return max(MIN_TRIALS, int(budget / (2 * length * cost)))

    def limited_to(self, max_length: int) -> LeakSearch:
        """The same search in rows of at most `max_length` positions."""
        return replace(self, subject=replace(self.subject, max_length=max_length))

    def probe_count(self, length: int) -> int:
        """Rows of one probe: one for each query in short rows, some of the queries in long ones."""
        queries = int((~self.permission.reachable(length)).any(dim=1).sum())
        return min(queries, max(MIN_PROBES, PROBED_POSITIONS // length))

    def further_lengths(self, shortest: int, requested: Sequence[int] | None) -> list[int]:
        """Lengths to probe, the most telling first; skipped ones are noted."""
        if self.permission.only_length is not None:
            self.notes.add_unchecked("other lengths: the mask is a table of one size")
            return []
        if requested is not None:
            return sorted(set(requested) - {shortest}, reverse=True)
        limit = self.subject.max_length
        assert limit is not None
        if limit > MAX_LENGTH:
            self.notes.add_unchecked(
                f"lengths above {MAX_LENGTH:,}: the model accepts up to {limit:,}"
            )
        lengths = [n for n in probe_lengths(limit) if n != shortest]
        undefined = [n for n in lengths if not self.permission.covers(n)]
        if undefined:
            named = ", ".join(map(str, sorted(undefined)))
            self.notes.add_unchecked(f"lengths {named}: the mask is not defined there")
        return self._affordable([n for n in lengths if self.permission.forbids(n)])

    def _affordable(self, lengths: list[int]) -> list[int]:
        """Those within the budget; the first, the limit, may cost more."""
        spent = 0.0
        within: list[int] = []
        skipped: list[int] = []
        for length in lengths:
            passes = PROBE_PASSES * self.probe_count(length) * length
            cost = passes * (self.flops_per_position + COST_PER_PAIR * length)
            if spent + cost <= (PROBE_BUDGET if within else MAX_COST):
                within.append(length)
                spent += cost
            else:
                skipped.append(length)
        if skipped:
            named = ", ".join(map(str, sorted(skipped)))
            self.notes.add_unchecked(f"lengths {named}: too expensive for a model of this size")
        return within


def find_max_length(search: LeakSearch, mode: ForwardMode, shortest: int) -> int:
    """The longest row the model accepts: its declared limit if that runs, else by bisection."""

    def error_at(length: int) -> str:
        try:
            mode.outputs(mode.subject.draw(1, length, torch.Generator()))
        except ForwardError as problem:
            return str(problem)
        return ""

    low, declared = shortest, search.subject.max_length
    if declared is None:
        on_cuda = mode.subject.device.type == "cuda"
        high = max(low, MAX_LENGTH_ON_CUDA if on_cuda else MAX_UNKNOWN_LENGTH)
    else:
        affordable = int(MAX_COST / (MIN_PROBES * PROBE_PASSES * search.flops_per_position))
        high = max(low, min(declared, MAX_LENGTH, affordable))
    if high == low or not (error := error_at(high)):
        if declared is None:
            search.notes.add_unchecked(f"lengths above {high}: the model's limit is not known")
        return declared or high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if error_at(middle) else (middle, high)
    search.notes.add_unchecked(f"lengths above {low}: {error}")
    return low


def shortest_testable_length(
    subject: Subject, permission: Permission, requested: Sequence[int] | None
) -> int | None:
    """The first length at which something is forbidden; None where there is none."""
    if requested:
        _refuse_untestable(subject, permission, requested)
    if permission.only_length is not None:
        candidates: Sequence[int] = (permission.only_length,)
    elif requested:
        candidates = sorted(requested)
    else:
        own = () if subject.sample is None else (subject.sample.shape[1],)
        candidates = (*own, *SHORT_LENGTHS)
    for length in candidates:
        if subject.accepts_length(length) and permission.forbids(length):
            return length
    if not any(permission.covers(length) for length in candidates):
        permission.at(candidates[0])  # raises the mask's own error
        raise UserError(
            f"the mask {permission.name} gives no (t,t) table for length {candidates[0]}",
            topic="audit",
            hint="Give a function from t to a (t,t) table of booleans, True = may attend.",
        )
    return None


def why_untestable(subject: Subject, permission: Permission) -> str:
    """Why no length is testable; empty where the mask indeed forbids nothing."""
    lengths = [n for n in (permission.only_length, *SHORT_LENGTHS) if n and permission.covers(n)]
    if any(permission.forbids(n) for n in lengths):
        limit = "one position" if subject.max_length == 1 else f"{subject.max_length} positions"
        return f"the model accepts {limit}, and there the mask {permission.name} forbids nothing"
    if any(permission.grows_with_depth(n) for n in lengths):
        return (
            f"through several layers the mask {permission.name} lets every position depend on "
            "every other, so the outputs do not show whether each layer respects it"
        )
    return ""


def _refuse_untestable(subject: Subject, permission: Permission, requested: Sequence[int]) -> None:
    """Lengths requested by the user at which no leak can be found."""
    testable = any(permission.forbids(length) for length in SHORT_LENGTHS)
    for length in requested:
        if not subject.accepts_length(length):
            limit = subject.max_length or "any number of"
            what = f"the model accepts rows of 1 to {limit} positions"
        elif permission.only_length not in (None, length):
            what = f"the mask is a table for length {permission.only_length}"
        elif testable and permission.covers(length) and not permission.forbids(length):
            what = f"the mask {permission.name} forbids nothing there"
        else:
            continue
        raise UserError(
            f"rows of length {length} cannot be audited: {what}",
            topic="audit",
            hint="Give another length, or none.",
        )
