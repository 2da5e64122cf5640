"""Linear attention: feature maps of queries and keys replace the softmax; O(n) instead of O(n²).

    out_i = φ(q_i) Σ_j φ(k_j) v_jᵀ / φ(q_i) Σ_j φ(k_j)
                                   Katharopoulos et al., 2020; random φ: Choromanski et al., 2021

This is attention with the scores φ(q) · φ(k), divided by their sum: the explicit path, for any
mask. Under a full or a causal mask the products are reordered, keys with values first; a sliding
window has no such reordering. A query whose scores are all 0 gets zeros, as a fully masked one
does: possible with relu, and with random features for keys so long that e^(−|k|²) is 0.

Shapes: b batch, h heads, i query, j key, d head width, f features, c chunks, e = d + 1.
Masks: True = may attend.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.attention.cache import RecurrentState
from regard.attention.feature_maps import (
    EluPlusOne,
    FeatureMap,
    RandomFeatures,
    Relu,
    divide_or_zero,
)
from regard.attention.function import (
    AttentionInputs,
    AttentionOutput,
    HeadShape,
    RecurrentAttentionFunction,
)
from regard.attention.kinds import AttentionKind, kind
from regard.attention.masks.mask import Grid, Mask
from regard.core.errors import UserError

CHUNK = 64
"Positions per chunk: inside a chunk all pairs are computed; earlier chunks enter as a sum."


@kind(
    "linear",
    cost="n · d²",
    masks=("causal", "bidirectional", "padding", "cross"),
    relative_positions=(),
)
class LinearAttention(AttentionKind):
    """A feature map instead of the softmax: time O(n), decoding with a state of fixed size."""

    feature_map: Literal["elu", "relu", "random"] = "elu"
    "elu + 1, relu, or random features, whose products are e^(q · k / √d) on average."
    features: int = Field(default=0, ge=0)
    "Random features per head; 0 takes four times its width."
    seed: int = 0
    "Seed of the random features, together with the layer's index."

    def build(self, shape: HeadShape) -> RecurrentAttentionFunction:
        return FeatureMapAttention(self._feature_map(shape))

    def own_parameters(self, shape: HeadShape) -> int:
        """None: random features are drawn, not trained."""
        return 0

    def _feature_map(self, shape: HeadShape) -> FeatureMap:
        if self.feature_map == "elu":
            return EluPlusOne()
        if self.feature_map == "relu":
            return Relu()
        digest = hashlib.sha256(f"{self.seed}/random features/{shape.layer}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        features = self.features or 4 * shape.width
        return RandomFeatures(shape.width, features, generator=generator)


class FeatureMapAttention(RecurrentAttentionFunction):
    supports_dropout = False  # the fast paths compute no weights

    def __init__(self, feature_map: FeatureMap) -> None:
        super().__init__()
        self.feature_map = feature_map

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j), never negative"""
        return self.feature_map.map_queries(q) @ self.feature_map.map_keys(k).transpose(-2, -1)

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        masked = scores.masked_fill(~allowed, 0.0)
        return divide_or_zero(masked, masked.sum(dim=-1, keepdim=True))

    def fast(self, inputs: AttentionInputs) -> AttentionOutput | None:
        mask, grid = inputs.mask, inputs.grid
        pattern = mask.structure.pattern
        if (
            inputs.bias is not None
            or pattern is None
            or (pattern == "causal" and not grid.from_start)
        ):
            return None
        # With either pattern the last query may attend to every valid key.
        valid = mask.materialize(grid.crop(slice(-1, None), slice(None)))
        queries, keys, values = self._features(inputs.q, inputs.k, inputs.v, valid)
        if pattern == "everything":
            mixed = queries @ (keys.transpose(-2, -1) @ values)
            return AttentionOutput(_normalise_mixed(mixed), None, "linear-everything")
        mixed, _ = _causal_sums(queries, keys, values)
        return AttentionOutput(_normalise_mixed(mixed), None, "linear-causal")

    def advance(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Mask, state: RecurrentState
    ) -> Tensor:
        new = q.shape[-2]
        if mask.structure.pattern != "causal":
            raise UserError(
                "linear attention decodes from a sum over the past, which needs a causal mask, "
                f"not {mask.name}",
                topic="attention",
                hint="Decode with a causal mask, or process the whole row without a cache.",
            )
        end = state.length + new
        mask.check_fits(rows=q.shape[0], keys=end, positions=end)
        row = Grid.over(queries=1, keys=end, batch=q.shape[0], first_query=end - 1, device=q.device)
        valid = mask.materialize(row.crop(slice(None), slice(state.length, end)))
        mixed, past = _causal_sums(
            *self._features(q, k, v, valid), past=state.state[0] if state.state else None
        )
        state.update([past], positions=new)
        return _normalise_mixed(mixed)

    def _features(
        self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Features of queries and keys, 0 where a key is not valid (b,1,1,j); values with a
        column of ones, in which the sum of the weights accumulates."""
        keys = self.feature_map.map_keys(k).masked_fill(~valid.transpose(-2, -1), 0.0)
        return self.feature_map.map_queries(q), keys, F.pad(v, (0, 1), value=1.0)


def _causal_sums(
    queries: Tensor, keys: Tensor, values: Tensor, *, past: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Σ_{j ≤ i} (queries_i · keys_j) values_j, (b,h,i,e), and Σ_j keys_j values_jᵀ, (b,h,f,e).

    Inside a chunk all pairs are computed; earlier chunks enter as a sum, which starts from `past`.
    Memory: n · (d + chunk), and one sum per chunk.
    """
    length = queries.shape[-2]
    chunk = min(CHUNK, length)
    queries, keys, values = (_split_chunks(x, chunk) for x in (queries, keys, values))
    sums = keys.transpose(-2, -1) @ values  # (b,h,c,f,e)
    first = torch.zeros_like(sums[:, :, :1]) if past is None else past[:, :, None]
    # Shifted by one chunk. Subtracting the chunk's own sum instead would leak its end by rounding.
    pasts = torch.cat([first, sums], dim=2).cumsum(dim=2)
    inside = (queries @ keys.transpose(-2, -1)).tril()
    mixed = inside @ values + queries @ pasts[:, :, :-1]
    return mixed.flatten(2, 3)[:, :, :length], pasts[:, :, -1]


def _split_chunks(x: Tensor, chunk: int) -> Tensor:
    """(b,h,n,d) -> (b,h,c,chunk,d), the last chunk padded with zeros, which add nothing."""
    b, h, n, d = x.shape
    return F.pad(x, (0, 0, 0, -n % chunk)).reshape(b, h, -1, chunk, d)


def _normalise_mixed(mixed: Tensor) -> Tensor:
    """(b,h,i,e) -> (b,h,i,d): the mixed values, divided by the sum of their weights."""
    return divide_or_zero(mixed[..., :-1], mixed[..., -1:])
