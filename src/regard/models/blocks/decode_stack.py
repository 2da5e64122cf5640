"""A stack made ready to read one place of each row at a time, as it does while it writes.

It computes what `Stack.forward` does, which is its oracle, and leaves out what there is around it:
weights are gathered and laid out once for many steps, and modules that are plain functions are
called as such. Whatever is not known here is called as it is. Shapes: b rows, w model width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import BlockCache, ModelCache
from regard.attention.decode_step import (
    CrossAttentionStep,
    DecodeMask,
    DecodeStep,
    Look,
    build_attention_step,
)
from regard.attention.masks.mask import Mask
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.token_positions import TokenPositions
from regard.models.blocks.block import Block, Memory
from regard.models.blocks.embedding import Embedding
from regard.nn.linear import unheard
from regard.nn.mlp import MLP, GatedMLP
from regard.nn.packed_linear import PackedLayer, pack_layers
from regard.nn.residual import Residual

LAID_OUT_AT = 4
"The step at which weights are laid out for the rows there are: it takes as long as a few steps do."

PastIt = Callable[[Tensor, PackedLayer], Tensor]
"One part of a block with its norm and its way past: x and the part to what comes out"


class DecodeStack:
    """The blocks and the closing norm, for one place of each row."""

    def __init__(self, blocks: Sequence[Block], norm: nn.Module) -> None:
        self._plain = blocks
        self._norm = ready_norm(norm)
        self._steps = 0
        self._embed: Callable[[Tensor, Tensor], Tensor] | None = None
        self._score: PackedLayer | None = None
        self._lay_out(rows=0)

    def __call__(self, x: Tensor, newest: DecodeStep, cache: ModelCache) -> Tensor:
        """(b,1,w) -> (b,w)"""
        self._steps += 1
        if self._steps == LAID_OUT_AT:
            self._lay_out(rows=newest.rows)
        x = x.view(-1) if newest.rows == 1 else x.view(newest.rows, -1)
        for block, memory in zip(self._blocks, cache.blocks, strict=True):
            x = block(x, newest, memory)
        return self._norm(x).view(newest.rows, -1)

    def embedded(self, ids: Tensor, positions: Tensor, embedding: Embedding) -> Tensor:
        """(b,1), (b or 1,1) -> (b,1,w): new tokens at their positions."""
        if self._embed is None:
            self._embed = ready_embedding(embedding)
        return self._embed(ids, positions)

    def scores(self, x: Tensor, layer: nn.Module) -> Tensor:
        """(b,w) -> (b,v): by the layer that scores tokens, laid out as the blocks are."""
        if self._score is None:
            self._score = pack_layers([layer], laid_out_for=self._rows)
        return self._score(x) if x.shape[0] > 1 else self._score(x.view(-1)).view(1, -1)

    def _lay_out(self, *, rows: int) -> None:
        self._rows = rows
        self._blocks = [DecodeBlock(block, laid_out_for=rows) for block in self._plain]
        self._score = None


def newest_of(
    x: Tensor, *, mask: Mask, positions: TokenPositions, source: Memory | None
) -> DecodeStep:
    """Of rows (b,1,w) that stand at the last of `positions`."""
    keys = positions.ids.shape[1]
    looked = None
    if source is not None:
        looked = DecodeMask.of(source.mask, place=0, keys=source.vectors.shape[1], dtype=x.dtype)
    return DecodeStep(
        len(x),
        positions.last(1),
        DecodeMask.of(mask, place=keys - 1, keys=keys, dtype=x.dtype),
        source=looked,
        positions=lambda: positions,
    )


class DecodeBlock:
    def __init__(self, block: Block, *, laid_out_for: int) -> None:
        self.look = build_attention_step(block.attention, laid_out_for=laid_out_for)
        self.past_look = ready_residual(block.attention_residual)
        self.look_at_source: Look | None = None
        if block.cross_attention is not None and block.cross_residual is not None:
            assert isinstance(block.cross_attention, MultiHeadAttention)
            self.look_at_source = CrossAttentionStep(
                block.cross_attention, laid_out_for=laid_out_for
            )
            self.past_source = ready_residual(block.cross_residual)
        self.feed = decode_mlp(block.mlp, laid_out_for=laid_out_for)
        self.past_feed = ready_residual(block.mlp_residual)

    def __call__(self, x: Tensor, newest: DecodeStep, memory: BlockCache) -> Tensor:
        x = self.past_look(x, lambda y: self.look(y, newest, memory.own))
        look, source = self.look_at_source, memory.source
        if look is not None and source is not None and newest.source is not None:
            x = self.past_source(x, lambda y: look(y, newest, source))
        return self.past_feed(x, self.feed)


def can_be_ready(block: nn.Module) -> bool:
    """Whether what a block reads of a source is all in its cache after the first tokens."""
    return isinstance(block, Block) and (
        block.cross_attention is None or isinstance(block.cross_attention, MultiHeadAttention)
    )


def ready_embedding(embedding: Embedding) -> Callable[[Tensor, Tensor], Tensor]:
    tokens, positions = embedding.tokens, embedding.positions
    bare = embedding.texts is None and embedding.norm is None and embedding.combine == "add"
    if not (bare and isinstance(positions, nn.Embedding)):
        return embedding
    if not all(map(unheard, (embedding, tokens, positions))):
        return embedding
    of_token, of_place = tokens.weight, positions.weight
    return lambda ids, position_ids: (
        torch.embedding(of_token, ids) + torch.embedding(of_place, position_ids)
    )


def ready_residual(residual: Residual) -> PastIt:
    norm = ready_norm(residual.norm)
    if residual.place == "pre":
        return lambda x, part: x + part(norm(x))
    return lambda x, part: norm(x + part(x))


def ready_norm(norm: nn.Module) -> PackedLayer:
    if type(norm) is nn.LayerNorm and unheard(norm):
        shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return norm


def decode_mlp(network: nn.Module, *, laid_out_for: int) -> PackedLayer:
    if type(network) is MLP and unheard(network):
        up_proj = pack_layers([network.up_proj], laid_out_for=laid_out_for, bend=network.bend)
        down_proj = pack_layers([network.down_proj], laid_out_for=laid_out_for)
        return lambda x: down_proj(up_proj(x))
    if type(network) is GatedMLP and unheard(network):
        both = pack_layers([network.gate_proj, network.up_proj], laid_out_for=laid_out_for)
        down_proj = pack_layers([network.down_proj], laid_out_for=laid_out_for)

        def gated(x: Tensor) -> Tensor:
            gate, wide = both(x).chunk(2, dim=-1)
            return down_proj(F.silu(gate) * wide)

        return gated
    return network
