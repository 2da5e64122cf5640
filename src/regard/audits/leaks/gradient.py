"""Leaks by gradient: d(output at i) / d(embedding j) must be zero where i may not depend on j.

Gradients show what perturbation cannot: a mask value of −60 leaves e⁻⁶⁰ of a forbidden value, which
is lost in any sum but stands alone in a gradient.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.precision import FLOAT64_FLOOR, recheck_in_float64
from regard.audits.leaks.perturbation import InfluenceByMethod, PairInfluence
from regard.audits.leaks.search import LeakSearch

MAX_QUERIES = 32
"Evenly spaced queries of longer rows; all share one backward pass."
ROWS = 2


def leaks_by_gradient(
    search: LeakSearch, mode: ForwardMode, base: Tensor, reachable: Tensor
) -> InfluenceByMethod:
    """(query, key) -> gradient, relative to the query's largest allowed one."""
    subject, length = search.subject, base.shape[1]
    if subject.vocabulary and not subject.embedding:
        search.notes.add_unchecked("gradients: the embedding layer is not known")
        return {}
    queries = (~reachable).any(dim=1).nonzero().flatten()
    if len(queries) > MAX_QUERIES:
        queries = queries[torch.linspace(0, len(queries) - 1, MAX_QUERIES).round().long()]
    generator = search.generator(length)
    outputs = mode.outputs(base)
    # A float64 model has no higher precision to re-check in: rounding is cut off by a floor.
    floor = FLOAT64_FLOOR if outputs.dtype == torch.float64 else 0.0
    found: PairInfluence = {}
    how = "gradient"
    for number in range(ROWS):
        row = base if number == 0 else subject.draw_other(base, generator)
        measure = partial(
            relative_gradients,
            rows=row.expand(len(queries), *row.shape[1:]).contiguous(),
            coefficients=torch.eye(length)[queries],
            forbidden=~reachable[queries],
        )
        try:
            first = measure(mode)
            influence = recheck_in_float64(
                first, measure, mode=mode, notes=search.notes, floor=floor
            )
        except ForwardError as problem:
            search.notes.add_unchecked(f"{mode.name}, length {length}: gradients: {problem}")
            return {}
        if influence.doubt:
            search.notes.add_doubt(f"{mode.name}, length {length}: gradients: {influence.doubt}")
        how = influence.describe("gradient")
        for n, j in influence.sizes.nonzero().tolist():
            found[int(queries[n]), j] = float(influence.sizes[n, j])
        if found:
            break  # another row would only repeat it
    search.notes.add_checked(f"{mode.name}, length {length}: gradients of {len(queries)} positions")
    return {how: found}


def relative_gradients(
    mode: ForwardMode, *, rows: Tensor, coefficients: Tensor, forbidden: Tensor
) -> Tensor:
    """(n,j) at forbidden keys, relative to the row's largest allowed one."""
    sizes = mode.gradients(rows, coefficients)
    if not bool(torch.isfinite(sizes).all()):
        raise ForwardError("they are not finite")
    largest = torch.where(forbidden, 0.0, sizes).amax(dim=1, keepdim=True)
    largest = torch.where(largest > 0, largest, sizes.amax(dim=1, keepdim=True).clamp(min=1e-300))
    return torch.where(forbidden, sizes / largest, 0.0)
