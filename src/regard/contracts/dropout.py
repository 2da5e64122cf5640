"""What a kind of attention owes under dropout: both paths drop alike.

A draw is never repeated by another path, so many draws are compared: their mean, and how far they
scatter. A fast path that drops nothing, drops twice or forgets to scale up differs in one of them.
Shapes: r draws, i query, w model width. Masks: True = may attend.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.contracts.attention import ATTENTION_CONTRACTS, causal_or_bidirectional
from regard.contracts.case import AttentionCase, slice_positions
from regard.contracts.contract import TINY, TOLERANCE, ContractViolation

DRAWS = 1500
SHARE = 0.5
"Dropped: with half of the weights gone no outcome is rare, so few draws show them all."
SIGMAS = 7.0
"How far two means may be apart, in their own uncertainty: chance alone does it once in 10¹¹."


@ATTENTION_CONTRACTS.add("dropout", sizes=TINY)
def dropout(case: AttentionCase) -> None:
    """In training the quick way drops as the readable one: the same mean, the same scatter."""
    mask = causal_or_bidirectional(case)
    x, positions = case.vectors()[:1], slice_positions(case.positions(), slice(0, 1), slice(None))
    mixer = case.mixer(dropout=SHARE).train()

    def drawn(*, seed: int, need_weights: bool) -> Tensor:
        """The row under many draws at once, (r,i,w)."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            rows = x.expand(DRAWS, -1, -1)
            attended = mixer(rows, mask=mask, positions=positions, need_weights=need_weights)
        return torch.as_tensor(attended.out)

    quick, readable = drawn(seed=1, need_weights=False), drawn(seed=2, need_weights=True)
    _check_means(quick, readable, what="outputs under dropout", case=case)
    _check_means(
        (quick - quick.mean(dim=0)).square(),
        (readable - readable.mean(dim=0)).square(),
        what="numbers for the scatter of outputs under dropout",
        case=case,
    )


def _check_means(got: Tensor, expected: Tensor, *, what: str, case: AttentionCase) -> None:
    """(r,i,w) each"""
    apart = (got.mean(dim=0) - expected.mean(dim=0)).abs()
    uncertain = ((got.var(dim=0) + expected.var(dim=0)) / DRAWS).sqrt()
    scale = max(1.0, float(expected.abs().max()))
    beyond = apart - SIGMAS * uncertain
    if not float(beyond.max()) <= TOLERANCE[got.dtype] * scale:  # a NaN is never within
        worst = int(beyond.argmax())
        raise ContractViolation(
            f"{what} differ from the readable path's by {float(apart.flatten()[worst]):.2g} in the "
            f"mean of {DRAWS:,} draws, chance allows "
            f"{SIGMAS * float(uncertain.flatten()[worst]):.2g} ({case})"
        )
