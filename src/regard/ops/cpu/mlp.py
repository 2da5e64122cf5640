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


class Network(NamedTuple):
    widen: Tensor
    "(hidden,w): U"
    widen_bias: Tensor | None
    narrow: Tensor
    "(w,hidden): W"
    narrow_bias: Tensor | None


class Fed(NamedTuple):
    y: Tensor
    "(n,w)"
    z: Tensor | None
    "(n,hidden), where there is a way back"


class Gradients(NamedTuple):
    x: Tensor | None
    widen: Tensor | None
    widen_bias: Tensor | None
    narrow: Tensor | None
    narrow_bias: Tensor | None


def takes(x: Tensor, network: Network) -> bool:
    """Whether (…,w) and the network fit together and are worth it."""
    widen, widen_bias, narrow, narrow_bias = network
    if narrow.shape != widen.shape[::-1]:
        return False
    return linear.takes(x, widen, widen_bias) and linear.is_layer(narrow, narrow_bias)


def forward(x: Tensor, network: Network, *, bend: int, wants_back: bool) -> Fed:
    """(n,w) -> (n,w)"""
    n, hidden = len(x), len(network.widen)
    fed = Fed(torch.empty_like(x), x.new_empty(n, hidden) if wants_back else None)
    library.run("regard_feed_forward", x, *network, *fed, *_sizes(x, hidden, bend))
    return fed


def backward(
    d_y: Tensor, x: Tensor | None, z: Tensor, network: Network, *, bend: int, wants: Sequence[bool]
) -> Gradients:
    """(n,w), (n,w) if `widen` wants its gradient, (n,hidden) -> the gradients of x and of the
    network that are wanted."""
    widen, _, narrow, _ = network
    fit = widen.shape == (z.shape[1], d_y.shape[1]) and narrow.shape == widen.shape[::-1]
    linear.refuse_changed(fit and linear.is_layer(widen, None) and linear.is_layer(narrow, None))
    wants_x, *wants_weights = wants
    found = Gradients(
        torch.empty_like(d_y) if wants_x else None,
        *(
            torch.zeros_like(one) if one is not None and wanted else None
            for one, wanted in zip(network, wants_weights, strict=True)
        ),
    )
    sizes = _sizes(d_y, z.shape[1], bend)
    library.run("regard_feed_forward_backward", d_y, x, z, widen, narrow, *found, *sizes)
    return found


def _sizes(x: Tensor, hidden: int, bend: int) -> tuple[int, ...]:
    return (*x.shape, hidden, bend, torch.get_num_threads())
