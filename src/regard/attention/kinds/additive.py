"""Additive attention: a small tanh network scores each query against each key.

    score(q, k) = w · tanh(W_q q + W_k k + b)              Bahdanau, Cho and Bengio, 2015

Each head has its own network. Materialised, the hidden values are (b,h,i,j,m): m times the memory
of dot-product attention. The fast path therefore computes a block of queries at a time, over the
keys that the mask's band can reach, and recomputes the hidden values in the backward pass.

Shapes: b batch, h heads, i query, j key, d head width, m hidden size of the scoring network. Masks:
True = may attend.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.function import AttentionFunction, AttentionInputs, AttentionOutput, HeadShape
from regard.attention.kinds import AttentionKind, kind
from regard.attention.paths import kernels
from regard.attention.paths.additive_blocks import AdditiveTerms, additive_blocks
from regard.attention.paths.query_blocks import BlockedAttention
from regard.core.process.host import without_autocast


@kind("additive", cost="n² · d", relative_positions=("bias",))
class Additive(AttentionKind):
    """A small tanh network scores each query against each key."""

    hidden: int = Field(default=0, ge=0)
    "Hidden size of the scoring network; 0 takes the head's width."

    def build(self, shape: HeadShape) -> AttentionFunction:
        return AdditiveScore(shape, hidden=self.hidden or shape.width)

    def own_parameters(self, shape: HeadShape) -> int:
        """Per head and hidden unit: a column of W_q, one of W_k, an element of w, one of b."""
        units = shape.heads * (self.hidden or shape.width)
        return units * (2 * shape.width + 1 + shape.biases)


class AdditiveScore(AttentionFunction):
    def __init__(self, shape: HeadShape, *, hidden: int) -> None:
        super().__init__()
        h, d = shape.heads, shape.width
        # A larger std than the model's default, and a random bias: around 0 tanh is linear, without
        # a term in which query and key interact, and learning where to attend starts late.
        self.init_std = d**-0.5
        # A model draws normal values in place of these (`models/init_weights.py`). These are
        # uniform, of the same deviation: parameters are counted without memory (device meta), where
        # a normal draw imports torch's compiler, a second of every process.
        bound = self.init_std * 3**0.5
        self.query_weight = nn.Parameter(torch.empty(h, d, hidden).uniform_(-bound, bound))
        self.key_weight = nn.Parameter(torch.empty(h, d, hidden).uniform_(-bound, bound))
        self.out_weight = nn.Parameter(torch.empty(h, hidden).uniform_(-bound, bound))
        bias = torch.empty(h, hidden).uniform_(-bound, bound)
        self.bias = nn.Parameter(bias) if shape.biases else None

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j); the oracle"""
        query, key = self._project(q, k)
        hidden = torch.tanh(query[:, :, :, None] + key[:, :, None])
        return (hidden @ self.out_weight[:, None, :, None]).squeeze(-1)

    def fast(self, inputs: AttentionInputs) -> AttentionOutput:
        query, key = self._project(inputs.q, inputs.k)
        # Under autocast the projections may have a wider dtype than the values: one dtype for all.
        dtype = torch.promote_types(query.dtype, key.dtype)
        with without_autocast(inputs.q.device):
            # Doubled, because σ stands for tanh: see `additive_blocks`.
            terms = AdditiveTerms(*(2 * x.to(dtype) for x in (query, key, self.out_weight)))
            v, blocked = inputs.v.to(dtype), BlockedAttention.from_inputs(inputs)
            out = None
            if kernels.supports(inputs, terms.query, terms.key):
                out = kernels.kernel_attention(
                    terms.query, terms.key, v, blocked, weight=terms.weight
                )
            path = "query-blocks" if out is None else "kernel"
            if out is None:
                out = additive_blocks(terms, v, inputs, blocked)
        return AttentionOutput(out.to(inputs.v.dtype), None, path)

    def _project(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """The two summands inside the tanh, W_q q (b,h,i,m) and W_k k + b (b,h,j,m)."""
        key = k @ self.key_weight
        if self.bias is not None:
            key = key + self.bias[:, None]
        return q @ self.query_weight, key
