"""One pass over the logits of an output layer (cross_entropy.c).

    s = 2^(x' Eᵀ)      denominator = Σ_v s      f = weight / denominator
    dx = f · s E       dE = sᵀ (f · x)

x' = log₂e · x, the log2-scaled hidden states. Shapes: n rows, w model width, v vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.ops.cpu import library

MAX_LOGITS = 5 * 2**20
"Logits held at once, approximately: 20 MB, which stay in the shared cache."
MIN_ROWS, MAX_ROWS = 32, 256
"Rows of a chunk. With fewer rows in all, packing the table costs more than it saves."


class LogitsPass(NamedTuple):
    denominator: Tensor
    "(n): Σ_v exp(x · e_v)"
    d_x: Tensor | None
    "(n,w), of Σ weight · log denominator"
    d_table: Tensor | None
    "(v,w), likewise"


def supports(x: Tensor, table: Tensor) -> bool:
    n, w = x.shape
    fits = w == table.shape[1] and library.fills_vectors(w)
    return n >= MIN_ROWS and fits and library.supports(x, table)


def logits_pass(
    x: Tensor,
    table: Tensor,
    *,
    log2_scaled: Tensor,
    weights: Tensor,
    need_d_x: bool = True,
    need_d_table: bool = True,
) -> LogitsPass:
    """(n,w), (v,w), (n,w), (n). No maximum is subtracted: denominators may over- or underflow."""
    (n, w), v = x.shape, len(table)
    padded = library.padded_to_panels(v)
    # Independent of the number of threads, for bits would depend on it.
    chunk = max(MIN_ROWS, min(MAX_ROWS, MAX_LOGITS // padded // 16 * 16))
    denominator = x.new_empty(n)
    d_x = x.new_empty(n, w) if need_d_x else None
    d_table = x.new_zeros(padded, w) if need_d_table else None
    library.run(
        "regard_cross_entropy",
        *(tensor.contiguous() for tensor in (x, log2_scaled, weights, table)),
        denominator,
        d_x,
        d_table,
        *(n, v, w, chunk, torch.get_num_threads()),
    )
    return LogitsPass(denominator, d_x, None if d_table is None else d_table[:v])
