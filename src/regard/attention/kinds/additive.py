"""Additive attention: a small network scores each query against each key.

    score(q, k) = w · tanh(W_q q + W_k k + b)              Bahdanau, Cho and Bengio, 2015

Each head has its own network. Written out, the network's inner values are (b,h,i,j,m): m times the
memory of dot-product attention. The fast path therefore goes through a few queries at a time, over
the keys that the mask's band can reach, and computes the inner values anew in the backward pass.

Shapes: b batch, h heads, i query, j key, d head width, m width of the scoring network. Masks:
True = may attend.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.function import AttentionFunction, AttentionInputs, FastOutput, HeadShape
from regard.attention.kinds import AttentionKind, kind
from regard.attention.paths.additive_blocks import Halves, additive


@kind("additive", cost="n² · d", relations=("bias",))
class Additive(AttentionKind):
    """A small tanh network scores each query against each key."""

    hidden: int = Field(default=0, ge=0)
    "Width of the scoring network; 0 takes the head's width."

    def build(self, shape: HeadShape) -> AttentionFunction:
        return AdditiveScore(shape, hidden=self.hidden or shape.width)

    def own_parameters(self, shape: HeadShape) -> int:
        """For each head and inner unit: a column of W_q, one of W_k, one number of w, one of b."""
        units = shape.heads * (self.hidden or shape.width)
        return units * (2 * shape.width + 1 + shape.biases)


class AdditiveScore(AttentionFunction):
    def __init__(self, shape: HeadShape, *, hidden: int) -> None:
        super().__init__()
        h, d = shape.heads, shape.width
        # Wider than a model's usual draw, and the bias not from 0: around 0 tanh is a line, and a
        # line has no term in which query and key meet; learning where to look then starts late.
        self.init_std = d**-0.5
        self.query_weight = nn.Parameter(torch.randn(h, d, hidden) * self.init_std)
        self.key_weight = nn.Parameter(torch.randn(h, d, hidden) * self.init_std)
        self.out_weight = nn.Parameter(torch.randn(h, hidden) * self.init_std)
        bias = torch.randn(h, hidden) * self.init_std
        self.bias = nn.Parameter(bias) if shape.biases else None

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j); the oracle"""
        from_query, from_key = self._halves(q, k)
        inner = torch.tanh(from_query[:, :, :, None] + from_key[:, :, None])
        return (inner @ self.out_weight[:, None, :, None]).squeeze(-1)

    def fast(self, asked: AttentionInputs) -> FastOutput:
        from_query, from_key = self._halves(asked.q, asked.k)
        # Under autocast the halves may be wider than the values: one type for all, then back.
        dtype = torch.promote_types(from_query.dtype, from_key.dtype)
        with torch.autocast(asked.q.device.type, enabled=False):
            halves = Halves(*(x.to(dtype) for x in (from_query, from_key, self.out_weight)))
            out, path = additive(halves, asked.v.to(dtype), asked)
        return FastOutput(out.to(asked.v.dtype), path)

    def _halves(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """What query and key bring into the tanh, (b,h,i,m) and (b,h,j,m)."""
        from_key = k @ self.key_weight
        if self.bias is not None:
            from_key = from_key + self.bias[:, None]
        return q @ self.query_weight, from_key
