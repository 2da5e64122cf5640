"""A feed-forward network over many places, forward and back (feed_forward.c).

    z = x Uᵀ + a        h = bend(z)        y = h Wᵀ + b

Shapes: n places, w model width, hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.ops.cpu import library, linear


class MlpWeights(NamedTuple):
    up_proj: Tensor
    "(hidden,w): U"
    widen_bias: Tensor | None
    down_proj: Tensor
    "(w,hidden): W"
    narrow_bias: Tensor | None


class MlpOutput(NamedTuple):
    y: Tensor
    "(n,w)"
    z: Tensor | None
    "(n,hidden), where there is a way back"


class MlpGradients(NamedTuple):
    x: Tensor | None
    up_proj: Tensor | None
    widen_bias: Tensor | None
    down_proj: Tensor | None
    narrow_bias: Tensor | None


def supports(x: Tensor, network: MlpWeights) -> bool:
    """Whether (…,w) and the network fit together and are worth it."""
    up_proj, widen_bias, down_proj, narrow_bias = network
    if down_proj.shape != up_proj.shape[::-1]:
        return False
    return linear.supports(x, up_proj, widen_bias) and linear.is_layer(down_proj, narrow_bias)


def forward(x: Tensor, network: MlpWeights, *, bend: int, wants_back: bool) -> MlpOutput:
    """(n,w) -> (n,w)"""
    n, hidden = len(x), len(network.up_proj)
    fed = MlpOutput(torch.empty_like(x), x.new_empty(n, hidden) if wants_back else None)
    library.run("regard_feed_forward", x, *network, *fed, *_sizes(x, hidden, bend))
    return fed


def backward(
    d_y: Tensor,
    x: Tensor | None,
    z: Tensor,
    network: MlpWeights,
    *,
    bend: int,
    wants: Sequence[bool],
) -> MlpGradients:
    """(n,w), (n,w) if `up_proj` wants its gradient, (n,hidden) -> the gradients of x and of the
    network that are wanted."""
    up_proj, _, down_proj, _ = network
    fit = up_proj.shape == (z.shape[1], d_y.shape[1]) and down_proj.shape == up_proj.shape[::-1]
    linear.refuse_changed(
        fit and linear.is_layer(up_proj, None) and linear.is_layer(down_proj, None)
    )
    wants_x, *wants_weights = wants
    found = MlpGradients(
        torch.empty_like(d_y) if wants_x else None,
        *(
            torch.zeros_like(one) if one is not None and wanted else None
            for one, wanted in zip(network, wants_weights, strict=True)
        ),
    )
    sizes = _sizes(d_y, z.shape[1], bend)
    library.run("regard_feed_forward_backward", d_y, x, z, up_proj, down_proj, *found, *sizes)
    return found


def _sizes(x: Tensor, hidden: int, bend: int) -> tuple[int, ...]:
    return (*x.shape, hidden, bend, torch.get_num_threads())
