"""Contract on dropout: the fast path drops attention weights as the explicit path does.

Paths draw in different orders, so the mean and variance of many draws are compared. A fast path
that drops nothing, drops twice or does not rescale differs in one of them.
Shapes: r draws, i query, w model width. Masks: True = may attend.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.contracts.attention import ATTENTION_CONTRACTS, causal_or_bidirectional
from regard.contracts.case import AttentionCase, slice_positions
from regard.contracts.contract import TINY, TOLERANCE, ContractViolation

DRAWS = 1500
RATE = 0.5
"Dropout rate: at one half no outcome is rare, so few draws are enough."
MAX_SIGMAS = 7.0
"Maximum difference of two means in standard errors: by chance exceeded once in 10¹¹."


@ATTENTION_CONTRACTS.add("dropout", sizes=TINY)
def dropout(case: AttentionCase) -> None:
    """In training, outputs of the fast and the explicit path have the same mean and variance."""
    mask = causal_or_bidirectional(case)
    x, positions = case.inputs()[:1], slice_positions(case.positions(), slice(0, 1), slice(None))
    mixer = case.mixer(dropout=RATE).train()

    def sample_outputs(*, seed: int, need_weights: bool) -> Tensor:
        """Outputs of one row under many draws, (r,i,w)."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            rows = x.expand(DRAWS, -1, -1)
            attended = mixer(rows, mask=mask, positions=positions, need_weights=need_weights)
        return torch.as_tensor(attended.out)

    fast = sample_outputs(seed=1, need_weights=False)
    explicit = sample_outputs(seed=2, need_weights=True)
    _check_means(fast, explicit, what="outputs under dropout", case=case)
    _check_means(
        (fast - fast.mean(dim=0)).square(),
        (explicit - explicit.mean(dim=0)).square(),
        what="squared deviations of outputs under dropout",
        case=case,
    )


def _check_means(got: Tensor, expected: Tensor, *, what: str, case: AttentionCase) -> None:
    """(r,i,w) each"""
    difference = (got.mean(dim=0) - expected.mean(dim=0)).abs()
    allowed = MAX_SIGMAS * ((got.var(dim=0) + expected.var(dim=0)) / DRAWS).sqrt()
    scale = max(1.0, float(expected.abs().max()))
    excess = difference - allowed
    if not float(excess.max()) <= TOLERANCE[got.dtype] * scale:  # NaN fails too
        worst = int(excess.argmax())
        raise ContractViolation(
            f"{what} differ from the explicit path's by {float(difference.flatten()[worst]):.2g} "
            f"in the mean of {DRAWS:,} draws, chance allows "
            f"{float(allowed.flatten()[worst]):.2g} ({case})"
        )
