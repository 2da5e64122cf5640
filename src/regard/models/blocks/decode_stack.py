"""A stack specialised for decoding: one new position per row, with packed weights.

It computes what `Stack.forward` does with a KV cache, which is its oracle, with less overhead per
step: weights are concatenated and packed once for many steps, and modules that are plain functions
are called as functions. Modules of unknown type are called as they are. Shapes: b rows, w model
width, v vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import BlockCache, ModelCache
from regard.attention.decode_step import (
    AttentionStep,
    CrossAttentionStep,
    DecodeMask,
    DecodeStep,
    build_attention_step,
)
from regard.attention.masks.mask import Mask
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.token_positions import TokenPositions
from regard.models.blocks.block import Block, Memory
from regard.models.blocks.embedding import Embedding
from regard.nn.linear import has_no_hooks
from regard.nn.mlp import MLP, GatedMLP
from regard.nn.packed_linear import PackedLayer, pack_layers
from regard.nn.residual import Residual

PACK_AT_STEP = 4
"The step at which weights are packed for the current number of rows; packing costs a few steps."

ResidualFunction = Callable[[Tensor, PackedLayer], Tensor]
"(x, sublayer) -> x after the sublayer with its norm and residual connection"


class DecodeStack:
    """The blocks and the final norm, for one new position per row."""

    def __init__(self, blocks: Sequence[Block], norm: nn.Module) -> None:
        self._source_blocks = blocks
        self._norm = decode_norm(norm)
        self._steps = 0
        self._embed: Callable[[Tensor, Tensor], Tensor] | None = None
        self._output_layer: PackedLayer | None = None
        self._pack(rows=0)

    def __call__(self, x: Tensor, step: DecodeStep, cache: ModelCache) -> Tensor:
        """(b,1,w) -> (b,w)"""
        self._steps += 1
        if self._steps == PACK_AT_STEP:
            self._pack(rows=step.rows)
        x = x.view(-1) if step.rows == 1 else x.view(step.rows, -1)
        for block, block_cache in zip(self._blocks, cache.blocks, strict=True):
            x = block(x, step, block_cache)
        return self._norm(x).view(step.rows, -1)

    def embed(self, ids: Tensor, positions: Tensor, embedding: Embedding) -> Tensor:
        """(b,1), (b or 1,1) -> (b,1,w): new tokens at their positions."""
        if self._embed is None:
            self._embed = decode_embedding(embedding)
        return self._embed(ids, positions)

    def logits(self, x: Tensor, output_layer: nn.Module) -> Tensor:
        """(b,w) -> (b,v): by the output layer, packed as the blocks are."""
        if self._output_layer is None:
            self._output_layer = pack_layers([output_layer], packed_for=self._rows)
        if x.shape[0] > 1:
            return self._output_layer(x)
        return self._output_layer(x.view(-1)).view(1, -1)

    def _pack(self, *, rows: int) -> None:
        self._rows = rows
        self._blocks = [DecodeBlock(block, packed_for=rows) for block in self._source_blocks]
        self._output_layer = None


def build_decode_step(
    x: Tensor, *, mask: Mask, positions: TokenPositions, memory: Memory | None
) -> DecodeStep:
    """The step of rows (b,1,w) at the last of `positions`."""
    keys = positions.ids.shape[1]
    cross_mask = None
    if memory is not None:
        cross_mask = DecodeMask.from_mask(
            memory.mask, position=0, keys=memory.hidden_states.shape[1], dtype=x.dtype
        )
    return DecodeStep(
        len(x),
        positions.last(1),
        DecodeMask.from_mask(mask, position=keys - 1, keys=keys, dtype=x.dtype),
        cross_mask,
        lambda: positions,
    )


class DecodeBlock:
    """A `Block` for one new position per row."""

    def __init__(self, block: Block, *, packed_for: int) -> None:
        self.self_attention = build_attention_step(block.attention, packed_for=packed_for)
        self.attention_residual = decode_residual(block.attention_residual)
        self.cross_attention: AttentionStep | None = None
        if block.cross_attention is not None and block.cross_residual is not None:
            assert isinstance(block.cross_attention, MultiHeadAttention)
            self.cross_attention = CrossAttentionStep(block.cross_attention, packed_for=packed_for)
            self.cross_residual = decode_residual(block.cross_residual)
        self.mlp = decode_mlp(block.mlp, packed_for=packed_for)
        self.mlp_residual = decode_residual(block.mlp_residual)

    def __call__(self, x: Tensor, step: DecodeStep, cache: BlockCache) -> Tensor:
        x = self.attention_residual(x, lambda y: self.self_attention(y, step, cache.self_attention))
        cross_attention, cross_cache = self.cross_attention, cache.cross_attention
        if cross_attention is not None and cross_cache is not None and step.cross_mask is not None:
            x = self.cross_residual(x, lambda y: cross_attention(y, step, cross_cache))
        return self.mlp_residual(x, self.mlp)


def supports_decode_block(block: nn.Module) -> bool:
    """Whether the cache holds all that cross-attention needs of the memory after the prefill."""
    return isinstance(block, Block) and (
        block.cross_attention is None or isinstance(block.cross_attention, MultiHeadAttention)
    )


def decode_embedding(embedding: Embedding) -> Callable[[Tensor, Tensor], Tensor]:
    tokens, positions = embedding.tokens, embedding.positions
    plain = embedding.segments is None and embedding.norm is None and embedding.combine == "add"
    if not (plain and isinstance(positions, nn.Embedding)):
        return embedding
    if not all(map(has_no_hooks, (embedding, tokens, positions))):
        return embedding
    token_table, position_table = tokens.weight, positions.weight
    return lambda ids, position_ids: (
        torch.embedding(token_table, ids) + torch.embedding(position_table, position_ids)
    )


def decode_residual(residual: Residual) -> ResidualFunction:
    norm = decode_norm(residual.norm)
    if residual.norm_placement == "pre":
        return lambda x, sublayer: x + sublayer(norm(x))
    return lambda x, sublayer: norm(x + sublayer(x))


def decode_norm(norm: nn.Module) -> PackedLayer:
    if type(norm) is nn.LayerNorm and has_no_hooks(norm):
        shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return norm


def decode_mlp(mlp: nn.Module, *, packed_for: int) -> PackedLayer:
    if type(mlp) is MLP and has_no_hooks(mlp):
        up_proj = pack_layers([mlp.up_proj], packed_for=packed_for, activation=mlp.activation)
        down_proj = pack_layers([mlp.down_proj], packed_for=packed_for)
        return lambda x: down_proj(up_proj(x))
    if type(mlp) is GatedMLP and has_no_hooks(mlp):
        gate_and_up_proj = pack_layers([mlp.gate_proj, mlp.up_proj], packed_for=packed_for)
        down_proj = pack_layers([mlp.down_proj], packed_for=packed_for)

        def gated_mlp(x: Tensor) -> Tensor:
            gate, up = gate_and_up_proj(x).chunk(2, dim=-1)
            return down_proj(F.silu(gate) * up)

        return gated_mlp
    return mlp
