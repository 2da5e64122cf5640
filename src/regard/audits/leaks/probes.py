"""Probes: the fast leak test, one batch for a forward mode and a length.

Each row of a batch gets its own query. Every input forbidden to that query is replaced, and no
output that may depend on none of these may move; in one backward pass, the gradients of all these
outputs to the replaced inputs must be zero. Leaks that a probe shows are searched again pair by
pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.precision import (
    FLOAT64_FLOOR,
    Influence,
    recheck_in_float64,
    relative_change,
)
from regard.audits.leaks.gradient import relative_gradients
from regard.audits.leaks.perturbation import PairInfluence, differs
from regard.audits.notes import Notes
from regard.audits.subject import Subject


@dataclass(frozen=True)
class Probes:
    """Rows (n,t), the same with forbidden inputs replaced, and what must not react, (n,t)."""

    before: Tensor
    after: Tensor
    changed: Tensor
    unaffected: Tensor

    @property
    def coefficients(self) -> Tensor:
        """One for each output that must not react, none of them equal: nothing cancels."""
        weights = 0.5 + torch.arange(self.changed.shape[1]).float().cos().square()
        return self.unaffected * weights


def build_probes(
    subject: Subject, rows: Tensor, reachable: Tensor, generator: torch.Generator
) -> Probes:
    """One probe for each of the rows, their queries evenly spaced."""
    queries = (~reachable).any(dim=1).nonzero().flatten()
    queries = queries[torch.linspace(0, len(queries) - 1, len(rows)).round().long()]
    changed = ~reachable[queries]
    other = subject.draw_other(rows, generator)
    where = changed.to(rows.device)
    after = torch.where(where if rows.dim() == 2 else where[..., None], other, rows)
    return Probes(rows, after, changed, ~((changed.float() @ reachable.float().T) > 0))


def probe(mode: ForwardMode, probes: Probes, notes: Notes) -> tuple[str, PairInfluence]:
    """By which method a leak shows, and (query, key) -> influence; empty where none shows."""
    return _by_perturbation(mode, probes, notes) or _by_gradient(mode, probes, notes) or ("", {})


Found = tuple[str, PairInfluence] | None


def _by_perturbation(mode: ForwardMode, probes: Probes, notes: Notes) -> Found:
    def measure(other: ForwardMode) -> Tensor:
        before, after = other.outputs(probes.before), other.outputs(probes.after)
        if not bool((differs(before, after) & probes.unaffected).any()):
            return torch.zeros(probes.unaffected.shape, dtype=torch.float64)
        return torch.where(probes.unaffected, relative_change(before, after), 0.0)

    influence = recheck_in_float64(measure(mode), measure, mode=mode, notes=notes)
    _add_doubt(notes, mode, probes, influence)
    # A change names the query and only the set of keys: the first of these stands for it.
    keys = probes.changed.int().argmax(dim=1).tolist()
    pairs: PairInfluence = {}
    for n, query in influence.sizes.nonzero().tolist():
        size = float(influence.sizes[n, query])
        pairs[query, keys[n]] = max(size, pairs.get((query, keys[n]), 0.0))
    return (influence.describe("perturbation"), pairs) if pairs else None


def _by_gradient(mode: ForwardMode, probes: Probes, notes: Notes) -> Found:
    if mode.subject.vocabulary and not mode.subject.embedding:
        return None
    measure = partial(
        relative_gradients,
        rows=probes.before,
        coefficients=probes.coefficients,
        forbidden=probes.changed,
    )
    # A float64 model has no higher precision to re-check in: rounding is cut off by a floor.
    floor = FLOAT64_FLOOR if mode.dtype == torch.float64 else 0.0
    try:
        influence = recheck_in_float64(measure(mode), measure, mode=mode, notes=notes, floor=floor)
    except ForwardError as problem:
        length = probes.changed.shape[1]
        notes.add_unchecked(f"{mode.name}, length {length}: gradients: {problem}")
        return None
    _add_doubt(notes, mode, probes, influence)
    # A gradient names the key and only the set of queries: the last of these stands for it.
    pairs: PairInfluence = {}
    for n, key in influence.sizes.nonzero().tolist():
        query = int(probes.unaffected[n].nonzero()[-1])
        size = float(influence.sizes[n, key])
        pairs[query, key] = max(size, pairs.get((query, key), 0.0))
    return (influence.describe("gradient"), pairs) if pairs else None


def _add_doubt(notes: Notes, mode: ForwardMode, probes: Probes, influence: Influence) -> None:
    if influence.doubt:
        notes.add_doubt(f"{mode.name}, length {probes.changed.shape[1]}: {influence.doubt}")
