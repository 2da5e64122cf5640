"""FlexAttention on a GPU: masks of any composition, never materialised.

torch compiles the mask's predicate into its attention kernel, and skips blocks of pairs that it
forbids entirely (Dong et al., 2024). On the CPU torch has no backward pass of it, and its eager
form materialises all scores: there it only serves to compare. Shapes: b batch, h heads, i query,
j key, d head width. Masks: True = may attend.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from regard.attention.function import AttentionInputs

DEVICES = ("cuda",)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MIN_WIDTH = 16
"Head width of the smallest tile of its kernel."


def supports(inputs: AttentionInputs) -> bool:
    """Whether to take it: for a mask that torch's fused kernels do not know by its pattern."""
    q, grid = inputs.q, inputs.grid
    if q.device.type not in DEVICES or inputs.bias is not None or inputs.dropout:
        return False
    if inputs.mask.structure.pattern is not None or None in (grid.queries, grid.keys):
        return False
    return q.dtype in DTYPES and q.shape[-1] >= MIN_WIDTH and _is_compilable(q.device.type)


def flex(inputs: AttentionInputs) -> Tensor:
    """(b,h,i,d); a fully masked query gets zeros."""
    attention: Callable[..., Tensor] = _attention(compiled=inputs.q.is_cuda)
    return attention(inputs.q, inputs.k, inputs.v, block_mask=_BLOCK_MASK.of(inputs))


class _BlockMask(threading.local):
    """The block mask of the last mask: all layers of a step share it."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._block_mask: object = None

    def of(self, inputs: AttentionInputs) -> object:
        mask, grid, (b, h) = inputs.mask, inputs.grid, inputs.q.shape[:2]
        key = (mask, b, h, grid.queries, grid.keys, inputs.q.device)
        same = len(self._key) == len(key) and self._key[0] is mask and self._key[1:] == key[1:]
        if not same:
            self._block_mask, self._key = _build_block_mask(inputs), key
        return self._block_mask


_BLOCK_MASK = _BlockMask()


def _build_block_mask(inputs: AttentionInputs) -> object:
    from torch.nn.attention.flex_attention import create_block_mask

    allowed, queries, keys = inputs.mask.allowed, inputs.grid.queries, inputs.grid.keys
    assert queries is not None
    assert keys is not None
    first_query, first_key = queries.start, keys.start

    def may_attend(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return allowed(b, h, i + first_query, j + first_key)

    b, h = inputs.q.shape[:2]
    return create_block_mask(
        may_attend,
        b,
        h,
        len(queries),
        len(keys),
        device=inputs.q.device,
        _compile=inputs.q.is_cuda,
    )


@cache
def _attention(*, compiled: bool) -> Callable[..., Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    attention: Callable[..., Any] = flex_attention
    return torch.compile(attention) if compiled else attention


@cache
def _is_compilable(device: str) -> bool:
    """Whether torch can compile its kernel here; it never has to on the CPU."""
    from torch.utils._triton import has_triton

    return device != "cuda" or has_triton()
