"""Small Transformers with exchangeable components, clean unless a component is broken on purpose.

Shapes: b batch, h heads, i query, j key, d head width, w model width. Masks: True = may attend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.audits.subject import Subject

VOCABULARY = 19
MAX_LENGTH = 40


@dataclass(frozen=True)
class MaskContext:
    """Layer and forward mode for which a mask is built."""

    layer: int
    length: int
    past: int = 0
    training: bool = False
    need_weights: bool = False
    valid: Tensor | None = None
    ids: Tensor | None = None

    @property
    def i(self) -> Tensor:
        return torch.arange(self.past, self.past + self.length)[:, None]

    @property
    def j(self) -> Tensor:
        return torch.arange(self.past + self.length)[None, :]


def causal(context: MaskContext) -> Tensor:
    """(b or 1, h or 1, i, j)"""
    allowed = (context.j <= context.i)[None, None]
    return allowed if context.valid is None else allowed & context.valid[:, None, None, :]


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, -math.inf).softmax(dim=-1).nan_to_num(0.0)


def identity(x: Tensor, context: MaskContext) -> Tensor:
    return x


def absolute_positions(context: MaskContext) -> Tensor:
    return torch.arange(context.past, context.past + context.length)


def scaled_dot_product(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


@dataclass(frozen=True)
class Components:
    """Components of a `ToyTransformer`."""

    mask: Callable[[MaskContext], Tensor] = causal
    normalise: Callable[[Tensor, Tensor], Tensor] = masked_softmax
    scores: Callable[[Tensor, Tensor], Tensor] = scaled_dot_product
    between_blocks: Callable[[Tensor, MaskContext], Tensor] = identity
    "Applied to (b,t,w) after each block."
    positions: Callable[[MaskContext], Tensor] = absolute_positions
    extra: Callable[[int], nn.Module] | None = None
    "Builds, from the width, a module (b,t,w) -> (b,t,w) added to the output of the first block."
    layers: int = 1
    heads: int = 2
    width: int = 16
    dropout: float = 0.0
    norm: Callable[[int], nn.Module] = nn.LayerNorm
    post_norm: bool = False
    activation: Callable[[Tensor], Tensor] = F.gelu
    learned_positions: bool = True
    scale: float = 1.0
    "Multiplies the initial attention weights."
    max_length: int = field(default=MAX_LENGTH)


class Block(nn.Module):
    def __init__(self, components: Components, layer: int) -> None:
        super().__init__()
        self.components, self.layer = components, layer
        self.qkv = nn.Linear(components.width, 3 * components.width)
        self.out = nn.Linear(components.width, components.width)
        self.up_proj, self.down_proj = (
            nn.Linear(components.width, 32),
            nn.Linear(32, components.width),
        )
        self.norms = nn.ModuleList([components.norm(components.width) for _ in range(2)])
        self.dropout = nn.Dropout(components.dropout)

    def forward(self, x: Tensor, context: MaskContext, cache: dict[int, Any] | None) -> Tensor:
        for norm, sublayer in zip(self.norms, (self.attend, self.mlp), strict=True):
            if self.components.post_norm:
                x = norm(x + self.dropout(sublayer(x, context, cache)))
            else:
                x = x + self.dropout(sublayer(norm(x), context, cache))
        return x

    def attend(self, x: Tensor, context: MaskContext, cache: dict[int, Any] | None) -> Tensor:
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.components.heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            before = cache.get(self.layer)
            if before is not None:
                k, v = torch.cat([before[0], k], 2), torch.cat([before[1], v], 2)
            cache[self.layer] = (k, v)
        weights = self.components.normalise(
            self.components.scores(q, k), self.components.mask(context)
        )
        mixed = self.dropout(weights) @ v
        return self.out(mixed.transpose(1, 2).reshape(b, t, w))

    def mlp(self, x: Tensor, context: MaskContext, cache: dict[int, Any] | None) -> Tensor:
        return self.down_proj(self.components.activation(self.up_proj(x)))


class ToyTransformer(nn.Module):
    """ids (b,t) -> logits (b,t,v)"""

    def __init__(self, components: Components | None = None, *, seed: int = 0) -> None:
        super().__init__()
        self.components = components or Components()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.tokens = nn.Embedding(VOCABULARY, self.components.width)
            self.position_embedding = nn.Embedding(
                2 * self.components.max_length, self.components.width
            )
            self.blocks = nn.ModuleList(
                Block(self.components, n) for n in range(self.components.layers)
            )
            self.extra = (
                None
                if self.components.extra is None
                else self.components.extra(self.components.width)
            )
            self.head = nn.Linear(self.components.width, VOCABULARY)
        with torch.no_grad():
            for block in self.blocks:
                for linear in (block.qkv, block.out):
                    linear.weight.mul_(self.components.scale)

    def forward(
        self,
        ids: Tensor,
        *,
        valid: Tensor | None = None,
        cache: dict[int, Any] | None = None,
        past: int = 0,
        need_weights: bool = False,
    ) -> Tensor:
        if past + ids.shape[1] > self.components.max_length:
            raise ValueError(
                f"rows of {past + ids.shape[1]} positions, {self.components.max_length} at most"
            )
        x, length = self.tokens(ids), ids.shape[1]
        context = MaskContext(0, length, past, self.training, need_weights, valid, ids)
        if self.components.learned_positions:
            x = x + self.position_embedding(self.components.positions(context))
        for n, block in enumerate(self.blocks):
            context = MaskContext(n, length, past, self.training, need_weights, valid, ids)
            x = self.components.between_blocks(block(x, context, cache), context)
            if n == 0 and self.extra is not None:
                x = x + self.extra(x)
        return self.head(x)


def full_subject(model: ToyTransformer) -> Subject:
    """A subject with padding mask, KV cache and attention weights."""

    def cached(module: ToyTransformer, ids: Tensor, cuts: Sequence[int]) -> Tensor:
        cache: dict[int, Any] = {}
        ends = zip((0, *cuts), (*cuts, ids.shape[1]), strict=True)
        return torch.cat([module(ids[:, a:b], cache=cache, past=a) for a, b in ends], dim=1)

    return Subject(
        "toy transformer",
        lambda module, ids, valid: module(ids, valid=valid),
        model,
        vocabulary=VOCABULARY,
        max_length=model.components.max_length,
        embedding="tokens",
        accepts_padding_mask=True,
        run_cached=cached,
        run_with_weights=lambda module, ids: module(ids, need_weights=True),
    )


def minimal_subject(model: ToyTransformer) -> Subject:
    """A subject that only maps ids to outputs."""
    return Subject(
        "minimal toy transformer",
        lambda module, ids, valid: module(ids),
        model,
        vocabulary=VOCABULARY,
        max_length=model.components.max_length,
        embedding="tokens",
    )
