"""One pass over the scores of an output layer (loss.c).

    s = 2^(x' Eᵀ)      mass = Σ_v s      f = weight / mass      dx = f · s E      dE = sᵀ (f · x)

Shapes: n places, w model width, v vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.ops.cpu import library

SCORES = 5 * 2**20
"Held at once, about: 20 MB, which stay in the cache that cores share."
FEWEST, MOST = 32, 256
"Places at once. Fewer than that in all do not pay for packing the table."


class LogitsPass(NamedTuple):
    mass: Tensor
    "(n)"
    d_x: Tensor | None
    "(n,w)"
    d_table: Tensor | None
    "(v,w)"


def supports(x: Tensor, table: Tensor) -> bool:
    n, w = x.shape
    fit = w == table.shape[1] and library.fills_vectors(w)
    return n >= FEWEST and fit and library.supports(x, table)


def logits_pass(
    x: Tensor,
    table: Tensor,
    *,
    in_twos: Tensor,
    weights: Tensor,
    wants_x: bool = True,
    wants_table: bool = True,
) -> LogitsPass:
    """(n,w), (v,w), (n,w), (n). Sums that leave what a float can hold are not mended here."""
    (n, w), v = x.shape, len(table)
    whole = library.padded_to_panels(v)
    # Not by the number of threads: bits would then depend on it.
    at_once = max(FEWEST, min(MOST, SCORES // whole // 16 * 16))
    mass = x.new_empty(n)
    d_x = x.new_empty(n, w) if wants_x else None
    d_table = x.new_zeros(whole, w) if wants_table else None
    library.run(
        "regard_loss_pass",
        *(one.contiguous() for one in (x, in_twos, weights, table)),
        mass,
        d_x,
        d_table,
        *(n, v, w, at_once, torch.get_num_threads()),
    )
    return LogitsPass(mass, d_x, None if d_table is None else d_table[:v])
