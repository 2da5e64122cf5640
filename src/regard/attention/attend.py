"""The one place where queries meet keys, and where the fast path is chosen.

    out = mix(normalise(scores(q, k), mask), v)

The explicit path is the oracle: it follows the rule word by word. Scaled dot-product has two
faster paths through torch's fused kernel, equal to the oracle in values and gradients. Which path
was taken is part of the answer.

Shapes: b batch, h heads, i query, j key, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from regard.attention.kinds.dot import DotProduct
from regard.attention.mask import Mask, bidirectional
from regard.attention.rule import Rule

Path = Literal["fused-causal", "fused-everything", "fused-dense", "explicit"]


class Attended(NamedTuple):
    """What attention gives: the mixed values, the weights where asked for, the path taken."""

    out: Tensor
    weights: Tensor | None
    path: Path


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None = None,
    rule: Rule | None = None,
    *,
    first_query: int = 0,
    dropout: float = 0.0,
    want_weights: bool = False,
) -> Attended:
    """Attend with `q` (b,h,i,d) over `k`, `v` (b,h,j,d).

    `first_query` is the place of the first query among the keys: the number of cached keys before
    it. `want_weights` takes the explicit path, which is the one that has them.
    """
    mask = mask or bidirectional()
    rule = rule or DotProduct()
    if want_weights or not rule.is_scaled_dot_product:
        return _explicit(q, k, v, mask, rule, first_query=first_query, dropout=dropout)
    if mask.hint == "everything":
        return Attended(_fused(q, k, v, dropout=dropout), None, "fused-everything")
    # is_causal aligns the first query with the first key: wrong as soon as keys were cached.
    if mask.hint == "causal" and first_query == 0 and q.shape[-2] == k.shape[-2]:
        return Attended(_fused(q, k, v, dropout=dropout, causal=True), None, "fused-causal")
    allowed = _dense(q, k, mask, first_query=first_query)
    empty = ~allowed.any(dim=-1, keepdim=True)
    out = _fused(q, k, v, dropout=dropout, allowed=allowed | empty)
    return Attended(out.masked_fill(empty, 0.0), None, "fused-dense")


def _explicit(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, rule: Rule, *, first_query: int, dropout: float
) -> Attended:
    weights = rule.normalise(rule.scores(q, k), _dense(q, k, mask, first_query=first_query))
    out = rule.mix(F.dropout(weights, p=dropout, training=dropout > 0), v)
    return Attended(out, weights, "explicit")


def _fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    dropout: float,
    allowed: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, dropout_p=dropout, is_causal=causal
    )


def _dense(q: Tensor, k: Tensor, mask: Mask, *, first_query: int) -> Tensor:
    return mask.dense(
        q.shape[-2],
        k.shape[-2],
        batch=q.shape[0],
        heads=q.shape[1],
        first_query=first_query,
        device=q.device,
    )
