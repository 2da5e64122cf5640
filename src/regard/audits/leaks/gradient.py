"""Gradients: d(output at i) / d(token vector j) has to be zero where i may not see j.

They see what perturbation cannot: a penalty of −60 leaves e⁻⁶⁰ of a forbidden value, which is lost
in any sum, yet stands alone in a gradient.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardMode, RefusedError
from regard.audits.forward.precision import second_look
from regard.audits.leaks.perturbation import ByInstrument, Pairs
from regard.audits.leaks.search import LeakSearch

EVERY_QUERY_UP_TO = 12
QUERIES = 6
"Taken evenly from longer rows; each costs a backward pass."
ROWS = 2
WIDE_FLOOR = 1e-11


def leaks_by_gradient(
    search: LeakSearch, view: ForwardMode, base: Tensor, reachable: Tensor
) -> ByInstrument:
    """(query, key) -> gradient, relative to the largest that the query may have."""
    subject, length = search.subject, base.shape[1]
    if subject.vocabulary and not subject.embedding:
        search.notes.could_not("gradients: the token vectors are not known")
        return {}
    blind = (~reachable).any(dim=1).nonzero().flatten()
    if length > EVERY_QUERY_UP_TO:
        blind = blind[torch.linspace(0, len(blind) - 1, QUERIES).round().long()]
    generator = search.generator(length)
    outputs = view.outputs(base)
    # A model in float64 already has no wider look: what float64 rounds has to be left out.
    floor = WIDE_FLOOR if outputs.dtype == torch.float64 else 0.0
    found: Pairs = {}
    how = "gradient"
    for number in range(ROWS):
        row = base if number == 0 else subject.draw_other(base, generator)
        directions = torch.randn(len(blind), outputs.shape[-1], generator=generator)
        measure = partial(
            _relative_gradients, row=row, queries=blind, directions=directions, seen=reachable
        )
        try:
            first = measure(view)
            stands = second_look(first, measure, view=view, notes=search.notes, floor=floor)
        except RefusedError as problem:
            search.notes.could_not(f"{view.name}, length {length}: gradients: {problem}")
            return {}
        if stands.doubt:
            search.notes.doubt(f"{view.name}, length {length}: gradients: {stands.doubt}")
        how = stands.told("gradient")
        for n, j in stands.sizes.nonzero().tolist():
            found[int(blind[n]), j] = float(stands.sizes[n, j])
        if found:
            break  # another row would only say it again
    search.notes.did(f"{view.name}, length {length}: gradients of {len(blind)} places")
    return {how: found}


def _relative_gradients(
    view: ForwardMode, *, row: Tensor, queries: Tensor, directions: Tensor, seen: Tensor
) -> Tensor:
    """(i,j) at forbidden pairs, relative to the largest allowed one of the query."""
    sizes = view.gradients(row, queries.tolist(), directions)
    if not bool(torch.isfinite(sizes).all()):
        raise RefusedError("they are not finite")
    allowed = seen[queries]
    largest = torch.where(allowed, sizes, 0.0).amax(dim=1, keepdim=True)
    largest = torch.where(largest > 0, largest, sizes.amax(dim=1, keepdim=True).clamp(min=1e-300))
    return torch.where(allowed, 0.0, sizes / largest)
