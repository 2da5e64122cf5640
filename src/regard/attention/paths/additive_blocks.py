"""Additive attention in query blocks, with its own backward pass.

    hidden = σ(query + key)      out = (softmax(w · hidden + bias) · keep / keep_probability) v

Additive attention uses tanh(u) = 2 σ(2u) − 1. The 1 is the same for every key, so it cancels in the
softmax, and σ takes a third of the time of tanh: weight, query and key are passed doubled. Only one
block's hidden values are held, and they are recomputed in the backward pass.
Shapes: b batch, h heads, i query, j key, d head width, m hidden size of the scoring network.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.attention.function import AttentionInputs
from regard.attention.paths.query_blocks import (
    BlockedAttention,
    BlockSize,
    QueryBlock,
    expand_bias,
)

SIZE = BlockSize(values=2**20, queries=24)
"""4 MB of hidden values in float32: smaller blocks are dominated by call overhead, larger ones do
not fit into the CPU cache."""


class AdditiveTerms(NamedTuple):
    """The terms of additive scores, whole or of one block; or their gradients."""

    query: Tensor
    "(b,h,i,m): summand of the query inside σ."
    key: Tensor
    "(b,h,j,m): summand of the key."
    weight: Tensor
    "(h,m): the same for every pair."

    def of_block(self, block: QueryBlock) -> AdditiveTerms:
        """Views, so that in-place additions reach the whole."""
        return AdditiveTerms(block.queries(self.query), block.keys(self.key), self.weight)

    def scores(self) -> tuple[Tensor, Tensor]:
        """(b,h,i,j), and the hidden values (b,h,i,j,m)."""
        hidden = (self.query[:, :, :, None] + self.key[:, :, None]).sigmoid_()
        # One product per head: torch would make one per query. The weight stands on the left, a
        # row: as a column it takes four times as long.
        scores = self.weight[:, None] @ hidden.flatten(2, 3).transpose(-2, -1)
        return scores.view(hidden.shape[:-1]), hidden

    def accumulate(self, d_scores: Tensor, hidden: Tensor) -> None:
        """Add the gradients through these scores. The caller still multiplies those of query and
        key by the weight. Overwrites the hidden values."""
        d_weight = d_scores.flatten(2)[:, :, None] @ hidden.flatten(2, 3)
        self.weight.add_(d_weight.squeeze(2).sum(dim=0))
        # σ' = σ − σ²
        d_hidden = hidden.addcmul_(hidden, hidden, value=-1).mul_(d_scores[..., None])
        self.query.add_(d_hidden.sum(dim=3))
        self.key.add_(d_hidden.sum(dim=2))


def additive_blocks(
    terms: AdditiveTerms, v: Tensor, inputs: AttentionInputs, blocked: BlockedAttention
) -> Tensor:
    """(b,h,i,d) for scores w · σ(query + key); the bias is that of `inputs`, in the dtype of
    `terms`."""
    bias = expand_bias(inputs, terms.query.dtype)
    out: Tensor = _AdditiveBlocks.apply(*terms, v, bias, blocked)  # type: ignore[no-untyped-call]
    return out


class _AdditiveBlocks(Function):
    """softmax(scores + bias) v, holding the hidden values of one block at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        weight: Tensor,
        v: Tensor,
        bias: Tensor | None,
        blocked: BlockedAttention,
    ) -> Tensor:
        terms = AdditiveTerms(query, key, weight)
        out = v.new_zeros(*query.shape[:-1], v.shape[-1])
        lse = v.new_zeros(*query.shape[:-1], 1)
        for block in _blocks(terms, blocked):
            scores, _ = _masked_scores(terms, bias, block)
            block_out, block_lse = _softmax_mix(
                scores, block.keys(v), blocked.keep_mask(block, v.dtype)
            )
            block.queries(out).copy_(block_out.div_(blocked.keep_probability))
            block.queries(lse).copy_(block_lse)
        ctx.save_for_backward(*terms, v, bias, lse)
        ctx.blocked = blocked
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, v, bias, lse = ctx.saved_tensors
        blocked, terms = ctx.blocked, AdditiveTerms(*tensors)
        d_terms, d_v = AdditiveTerms(*map(torch.zeros_like, terms)), torch.zeros_like(v)
        # The bias may be an expanded view, but its gradient needs its own memory.
        d_bias = bias.new_zeros(bias.shape) if ctx.needs_input_grad[4] else None
        d_mixed = d_out / blocked.keep_probability
        for block in _blocks(terms, blocked):
            scores, hidden = _masked_scores(terms, bias, block)
            weights = scores.sub_(block.queries(lse)).exp_()
            keep_mask = blocked.keep_mask(block, v.dtype)
            d_scores, block_d_v = _softmax_mix_backward(
                weights, block.queries(d_mixed), block.keys(v), keep_mask
            )
            block.keys(d_v).add_(block_d_v)
            if d_bias is not None:
                d_block = block.pairs(d_bias)
                d_block.add_(d_scores.sum_to_size(d_block.shape))
            d_terms.of_block(block).accumulate(d_scores, hidden)
        # Once, not in every block.
        d_terms.query.mul_(terms.weight[:, None])
        d_terms.key.mul_(terms.weight[:, None])
        return (*d_terms, d_v, d_bias, None)


def _blocks(terms: AdditiveTerms, blocked: BlockedAttention) -> Iterator[QueryBlock]:
    b, h, queries, hidden = terms.query.shape
    return blocked.blocks((b, h, queries, terms.key.shape[2]), SIZE, values_per_pair=hidden)


def _masked_scores(
    terms: AdditiveTerms, bias: Tensor | None, block: QueryBlock
) -> tuple[Tensor, Tensor]:
    """(b,h,i,j), −∞ where forbidden, and the hidden values."""
    scores, hidden = terms.of_block(block).scores()
    if bias is not None:
        scores += block.pairs(bias)
    return block.mask_scores_(scores), hidden


def _softmax_mix(scores: Tensor, v: Tensor, keep_mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Outputs (b,h,i,d) and the log-sum-exp of the scores (b,h,i,1); overwrites `scores`. A fully
    masked row gives zeros."""
    maximum = scores.amax(dim=-1, keepdim=True).nan_to_num_(neginf=0.0)
    denominator = scores.sub_(maximum).exp_().sum(dim=-1, keepdim=True)
    if keep_mask is not None:
        scores.mul_(keep_mask)
    denominator.masked_fill_(denominator == 0, 1.0)
    return (scores @ v).div_(denominator), denominator.log().add_(maximum)


def _softmax_mix_backward(
    weights: Tensor, d_out: Tensor, v: Tensor, keep_mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of the scores (b,h,i,j) and of the values (b,h,j,d)."""
    d_weights = d_out @ v.transpose(-2, -1)
    if keep_mask is None:
        d_v = weights.transpose(-2, -1) @ d_out
    else:
        d_weights.mul_(keep_mask)
        d_v = keep_mask.mul_(weights).transpose(-2, -1) @ d_out
    d_scores = d_weights.mul_(weights)
    # Delta = rowsum(d_scores), not the equal rowsum(d_out ∘ out), which rounds differently: with a
    # single key the gradient must be exactly 0.
    return d_scores.addcmul_(weights, d_scores.sum(dim=-1, keepdim=True), value=-1), d_v
