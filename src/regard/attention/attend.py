"""The one place where queries meet keys, and where the path is chosen.

    out = mix(normalise(scores(q, k) + bias, mask), v)

The explicit path is the oracle: it follows the rule word by word. A rule may know a faster path,
and a mask that is known to stay in blocks or in a band is never written out whole; all equal the
oracle in values and gradients. Which path was taken is part of the answer.

Shapes: b batch, h heads, i query, j key, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.function import AttentionFunction, AttentionInputs
from regard.attention.kinds.dot import DotProduct
from regard.attention.masks.mask import Grid, Mask, bidirectional, causal
from regard.attention.masks.structure import Band
from regard.core.errors import UserError
from regard.nn.dropout import dropout

STRIPE = 64
"Queries that go together where a mask stays in a band; fewer would not fill a kernel."


class AttentionOutput(NamedTuple):
    """What attention gives: the mixed values, the weights where asked for, the path taken."""

    out: Tensor
    weights: Tensor | None
    path: str


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None = None,
    rule: AttentionFunction | None = None,
    *,
    bias: Tensor | None = None,
    first_query: int = 0,
    dropout: float = 0.0,
    want_weights: bool = False,
) -> AttentionOutput:
    """Attend with `q` (b,h,i,d) over `k`, `v` (b,h,j,d); `bias` (b,h,i,j) is added to the scores.

    `first_query` is the place of the first query among the keys: the number of cached keys before
    it. `want_weights` takes the explicit path, which is the one that has them.
    """
    rule, mask = rule or DotProduct(), bidirectional() if mask is None else mask
    _check_given(k, v, mask)
    mask.check_fits(
        rows=q.shape[0], keys=k.shape[-2], positions=max(first_query + q.shape[-2], k.shape[-2])
    )
    grid = Grid.over(
        queries=q.shape[-2],
        keys=k.shape[-2],
        batch=q.shape[0],
        heads=q.shape[1],
        first_query=first_query,
        device=q.device,
    )
    asked = AttentionInputs(q, k, v, mask, grid, bias, dropout if rule.drops_weights else 0.0)
    return _explicit(asked, rule) if want_weights else _quickest(asked, rule)


def _check_given(k: Tensor, v: Tensor, mask: object) -> None:
    if not isinstance(mask, Mask):
        raise UserError(
            f"the mask is a {type(mask).__name__}, not a Mask",
            topic="attention",
            hint="Take one of regard.mask, or wrap a table of your own, (i, j), True = may "
            'attend: Mask(lambda b, h, i, j: table[i, j], "mine").',
        )
    if k.shape[-2] != v.shape[-2]:
        raise UserError(
            f"{k.shape[-2]} keys and {v.shape[-2]} values",
            topic="attention",
            hint="Give each key one value.",
        )


def _quickest(asked: AttentionInputs, rule: AttentionFunction) -> AttentionOutput:
    structure, keys = asked.mask.structure, asked.k.shape[-2]
    if rule.ignores_forbidden:
        if (
            structure.block
            and structure.block < keys
            and asked.grid.from_start
            and asked.bias is None
        ):
            return _in_blocks(asked, rule, structure.block)
        if _is_narrow(structure.band, keys):
            return _in_stripes(asked, rule, structure.band)
    return _whole(asked, rule)


def _whole(asked: AttentionInputs, rule: AttentionFunction) -> AttentionOutput:
    fast = rule.fast(asked)
    return _explicit(asked, rule) if fast is None else AttentionOutput(fast.out, None, fast.path)


def _explicit(asked: AttentionInputs, rule: AttentionFunction) -> AttentionOutput:
    scores = rule.scores(asked.q, asked.k)
    if asked.bias is not None:
        scores = scores + asked.bias
    weights = rule.normalise(scores, asked.mask.on(asked.grid))
    kept = dropout(weights, asked.dropout)
    return AttentionOutput(rule.mix(kept, asked.v), weights, "explicit")


def _is_narrow(band: Band, keys: int) -> bool:
    """Whether stripes see less than half of the keys: otherwise one piece is as quick."""
    if band.back is None or band.ahead is None:
        return False
    return 2 * (STRIPE + band.back + band.ahead) < keys


def _in_stripes(asked: AttentionInputs, rule: AttentionFunction, band: Band) -> AttentionOutput:
    """A few queries at a time, over the keys their band can reach."""
    assert band.back is not None
    assert band.ahead is not None
    first_query, queries = int(asked.grid.i.flatten()[0]), asked.q.shape[-2]
    outs, path = [], ""
    for begin in range(0, queries, STRIPE):
        end = min(queries, begin + STRIPE)
        rows = slice(begin, end)
        columns = slice(max(0, first_query + begin - band.back), first_query + end + band.ahead)
        piece = replace(
            asked,
            q=asked.q[..., rows, :],
            k=asked.k[..., columns, :],
            v=asked.v[..., columns, :],
            grid=asked.grid.part(rows, columns),
            bias=None if asked.bias is None else asked.bias[..., rows, columns],
        )
        attended = _whole(piece, rule)
        outs.append(attended.out)
        path = attended.path
    return AttentionOutput(torch.cat(outs, dim=-2), None, f"stripes, {path}")


def _in_blocks(asked: AttentionInputs, rule: AttentionFunction, block: int) -> AttentionOutput:
    """Each block as a row of the batch of its own: n²/G instead of n² for G blocks."""
    b, _, n, _ = asked.q.shape
    blocks = -(-n // block)
    mask, grid = _inside_blocks(asked, block)
    piece = replace(
        asked,
        q=_folded(asked.q, blocks, block),
        k=_folded(asked.k, blocks, block),
        v=_folded(asked.v, blocks, block),
        mask=mask,
        grid=grid,
    )
    attended = _whole(piece, rule)
    parted = attended.out.view(b, blocks, *attended.out.shape[1:])
    out = parted.transpose(1, 2).flatten(2, 3)[:, :, :n]
    return AttentionOutput(out, None, f"blocks, {attended.path}")


def _inside_blocks(asked: AttentionInputs, block: int) -> tuple[Mask, Grid]:
    """The mask over rows that are one block each, and the places it is asked about."""
    b, h, n, _ = asked.q.shape
    blocks, pattern = -(-n // block), asked.mask.structure.inside
    # Places that fill up the last block come last: no real place sees them where all look back.
    if pattern == "causal" or (pattern == "everything" and n % block == 0):
        grid = Grid.over(
            queries=block, keys=block, batch=b * blocks, heads=h, device=asked.q.device
        )
        return causal() if pattern == "causal" else bidirectional(), grid
    first = torch.arange(blocks, device=asked.q.device).repeat(b).view(-1, 1, 1, 1) * block
    inside = torch.arange(block, device=asked.q.device)
    grid = Grid(
        asked.grid.b.repeat_interleave(blocks, dim=0),
        asked.grid.h,
        # Places that only fill up the last block are asked about as the row's last place, which
        # every mask knows; they are forbidden below.
        (first + inside.view(1, 1, -1, 1)).clamp(max=n - 1),
        (first + inside.view(1, 1, 1, -1)).clamp(max=n - 1),
    )
    real = first + inside.view(1, 1, 1, -1) < n
    filled = Mask(lambda b, h, i, j: asked.mask.allowed(b, h, i, j) & real, asked.mask.name)
    return filled, grid


def _folded(x: Tensor, blocks: int, block: int) -> Tensor:
    """(b,h,n,d) -> (b·blocks,h,block,d), the last block filled up with zeros."""
    b, h, n, d = x.shape
    if n < blocks * block:  # torch would copy to add nothing
        x = F.pad(x, (0, 0, 0, blocks * block - n))
    # Parting one axis in two is always a view, however the others lie in memory.
    return x.view(b, h, blocks, block, d).transpose(1, 2).flatten(0, 1)
