"""`attend`: queries over keys and values under a mask; the only place that chooses a path.

    out = mix(normalise(scores(q, k) + bias, mask), v)

The explicit path is the oracle: it follows the attention function step by step. An attention
function may have a fast path, and a mask of known structure (blocks, or the band of a sliding
window) is never materialised whole; every path equals the oracle in values and gradients. The
output names the path taken.

Shapes: b batch, h heads, i query, j key, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.function import AttentionFunction, AttentionInputs, AttentionOutput
from regard.attention.kinds.dot import DotProduct
from regard.attention.masks.mask import Grid, Mask, bidirectional, causal
from regard.attention.masks.structure import Band
from regard.attention.paths import flex
from regard.core.errors import UserError
from regard.nn.dropout import dropout

ROW_HEADS = 4
"Dimensions of tensors with rows and heads."
STRIPE = 64
"Queries per stripe, where the mask is a band; fewer would not fill a kernel."


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None = None,
    function: AttentionFunction | None = None,
    *,
    bias: Tensor | None = None,
    first_query: int = 0,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> AttentionOutput:
    """Attention of `q` (b,h,i,d) over `k` and `v` (b,h,j,d); `bias` (b,h,i,j) is added to the
    scores. Without heads the shapes are (b,i,d) and (b,j,d), of a single row (i,d) and (j,d).

    `first_query` is the position of the first query among the keys: the number of cached keys.
    `need_weights` takes the explicit path, the only one that computes them."""
    _check_tensors(q, k, v)
    if not (q.ndim == k.ndim == v.ndim == ROW_HEADS):
        same = partial(
            attend, mask=mask, function=function, first_query=first_query, dropout=dropout
        )
        return _with_heads(partial(same, need_weights=need_weights), q, k, v, bias=bias)
    function, mask = function or DotProduct(), bidirectional() if mask is None else mask
    _check_arguments(q, k, v, mask, is_dot=isinstance(function, DotProduct))
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
    inputs = AttentionInputs(
        q, k, v, mask, grid, bias, dropout if function.supports_dropout else 0.0
    )
    if not (q.shape[-2] and k.shape[-2]):
        return _without_pairs(inputs, need_weights=need_weights)
    if need_weights:
        return _explicit(inputs, function)
    if function.ignores_masked_keys:
        block_size = _foldable_block_size(inputs)
        if block_size:
            return _in_blocks(inputs, function, block_size)
        by_flex = isinstance(function, DotProduct) and flex.supports(inputs)
        if _is_narrow(mask.structure.band, k.shape[-2]) and not by_flex:
            return _in_stripes(inputs, function, mask.structure.band)
    return function.fast(inputs) or _explicit(inputs, function)


def _with_heads(
    attend_heads: Callable[..., AttentionOutput],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    bias: Tensor | None,
) -> AttentionOutput:
    """Attention of tensors without heads, or without batch and heads: there is one of each."""
    dimensions = q.ndim
    if not (dimensions == k.ndim == v.ndim and dimensions in (2, 3)):
        raise UserError(
            f"queries, keys and values have the shapes {tuple(q.shape)}, {tuple(k.shape)} and "
            f"{tuple(v.shape)}",
            topic="attention",
            hint="Give (batch, heads, positions, width) each; without heads (batch, positions, "
            "width), of a single row (positions, width).",
        )
    if bias is not None and bias.ndim == dimensions == ROW_HEADS - 1:
        bias = bias.unsqueeze(1)
    if dimensions == ROW_HEADS - 1:
        output = attend_heads(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), bias=bias)
        weights = None if output.weights is None else output.weights.squeeze(1)
        return AttentionOutput(output.out.squeeze(1), weights, output.path)
    output = attend_heads(q[None, None], k[None, None], v[None, None], bias=bias)
    weights = None if output.weights is None else output.weights[0, 0]
    return AttentionOutput(output.out[0, 0], weights, output.path)


def _without_pairs(inputs: AttentionInputs, *, need_weights: bool) -> AttentionOutput:
    """No query, or no key: zeros, as for a query that may attend to nothing."""
    weights = inputs.q.sum(-1, keepdim=True) * inputs.k.sum(-1).unsqueeze(-2)
    return AttentionOutput(weights @ inputs.v, weights if need_weights else None, "without-pairs")


def _check_tensors(*given: object) -> None:
    for name, one in zip(("queries", "keys", "values"), given, strict=True):
        if not isinstance(one, Tensor):
            what = f"the {name} are of type {type(one).__name__}"
            raise UserError(what, topic="attention", hint="Give tensors of torch.")


def _check_arguments(q: Tensor, k: Tensor, v: Tensor, mask: object, *, is_dot: bool) -> None:
    """`is_dot`: scores are inner products; other functions may have other widths."""
    if not isinstance(mask, Mask):
        raise UserError(
            f"the mask is a {type(mask).__name__}, not a Mask",
            topic="attention",
            hint="Take one of regard.mask, or wrap your own table, (i, j), True = may "
            'attend: Mask(lambda b, h, i, j: table[i, j], "mine").',
        )
    if k.shape[-2] != v.shape[-2]:
        raise UserError(
            f"{k.shape[-2]} keys and {v.shape[-2]} values",
            topic="attention",
            hint="Give each key one value.",
        )
    if is_dot and q.shape[-1] != k.shape[-1]:
        raise UserError(
            f"queries of width {q.shape[-1]} and keys of width {k.shape[-1]}",
            topic="attention",
            hint="A score needs one width of both.",
        )
    if not (q.is_floating_point() and k.is_floating_point() and v.is_floating_point()):
        raise UserError(
            f"queries, keys and values are {q.dtype}, {k.dtype} and {v.dtype}",
            topic="attention",
            hint="Give floating-point numbers.",
        )


def _explicit(inputs: AttentionInputs, function: AttentionFunction) -> AttentionOutput:
    scores = function.scores(inputs.q, inputs.k)
    if inputs.bias is not None:
        scores = scores + inputs.bias
    weights = function.normalise(scores, inputs.mask.materialize(inputs.grid))
    out = function.mix(dropout(weights, inputs.dropout), inputs.v)
    return AttentionOutput(out, weights, "explicit")


def _foldable_block_size(inputs: AttentionInputs) -> int:
    """The size of the blocks that attend to themselves alone; 0 where the row cannot be folded."""
    size = inputs.mask.structure.block_size or 0
    foldable = size < inputs.k.shape[-2] and inputs.grid.from_start and inputs.bias is None
    return size if foldable else 0


def _is_narrow(band: Band, keys: int) -> bool:
    """Whether a stripe reaches less than half of the keys; otherwise stripes are no faster."""
    if band.left is None or band.right is None:
        return False
    return 2 * (STRIPE + band.left + band.right) < keys


def _in_stripes(
    inputs: AttentionInputs, function: AttentionFunction, band: Band
) -> AttentionOutput:
    """A few queries at a time, over the keys that the band lets them reach."""
    assert band.left is not None
    assert band.right is not None
    assert inputs.grid.queries is not None
    first_query, queries = inputs.grid.queries.start, inputs.q.shape[-2]
    outs, path = [], ""
    for begin in range(0, queries, STRIPE):
        end = min(queries, begin + STRIPE)
        rows = slice(begin, end)
        columns = slice(max(0, first_query + begin - band.left), first_query + end + band.right)
        stripe = replace(
            inputs,
            q=inputs.q[..., rows, :],
            k=inputs.k[..., columns, :],
            v=inputs.v[..., columns, :],
            grid=inputs.grid.crop(rows, columns),
            bias=None if inputs.bias is None else inputs.bias[..., rows, columns],
        )
        attended = function.fast(stripe) or _explicit(stripe, function)
        outs.append(attended.out)
        path = attended.path
    return AttentionOutput(torch.cat(outs, dim=-2), None, f"stripes, {path}")


def _in_blocks(inputs: AttentionInputs, function: AttentionFunction, size: int) -> AttentionOutput:
    """Block-local attention with blocks folded into the batch: n²/G instead of n² for G blocks."""
    b, _, n, _ = inputs.q.shape
    blocks = -(-n // size)
    mask, grid = _fold_mask(inputs, size)
    folded = replace(
        inputs,
        q=_fold_blocks(inputs.q, blocks, size),
        k=_fold_blocks(inputs.k, blocks, size),
        v=_fold_blocks(inputs.v, blocks, size),
        mask=mask,
        grid=grid,
    )
    attended = function.fast(folded) or _explicit(folded, function)
    by_block = attended.out.view(b, blocks, *attended.out.shape[1:])
    out = by_block.transpose(1, 2).flatten(2, 3)[:, :, :n]
    return AttentionOutput(out, None, f"blocks, {attended.path}")


def _fold_mask(inputs: AttentionInputs, size: int) -> tuple[Mask, Grid]:
    """The mask inside the blocks, (b·blocks,h,size,size), and its grid."""
    b, h, n, _ = inputs.q.shape
    device = inputs.q.device
    blocks, pattern = -(-n // size), inputs.mask.structure.block_pattern
    # The last block is padded at its end: under a causal mask no real query reaches the padding.
    if pattern == "causal" or (pattern == "everything" and n % size == 0):
        grid = Grid.over(queries=size, keys=size, batch=b * blocks, heads=h, device=device)
        return causal() if pattern == "causal" else bidirectional(), grid
    first = torch.arange(blocks, device=device).repeat(b).view(-1, 1, 1, 1) * size
    offset = torch.arange(size, device=device)
    grid = Grid(
        inputs.grid.b.repeat_interleave(blocks, dim=0),
        inputs.grid.h,
        # Padding of the last block takes the index of the row's last position, which every mask
        # covers; it is masked below.
        (first + offset.view(1, 1, -1, 1)).clamp(max=n - 1),
        (first + offset.view(1, 1, 1, -1)).clamp(max=n - 1),
    )
    real = first + offset.view(1, 1, 1, -1) < n
    mask = Mask(lambda b, h, i, j: inputs.mask.allowed(b, h, i, j) & real, inputs.mask.name)
    return mask, grid


def _fold_blocks(x: Tensor, blocks: int, size: int) -> Tensor:
    """(b,h,n,d) -> (b·blocks,h,size,d), the last block padded with zeros."""
    b, h, n, d = x.shape
    if n < blocks * size:  # torch would copy to pad by nothing
        x = F.pad(x, (0, 0, 0, blocks * size - n))
    # Splitting one dimension in two is always a view, whatever the strides of the others.
    return x.view(b, h, blocks, size, d).transpose(1, 2).flatten(0, 1)
