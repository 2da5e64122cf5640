"""Linear attention: features of queries meet a sum over the keys, so time grows with n, not n².

    out_i = φ(q_i) Σ_j φ(k_j) v_jᵀ / φ(q_i) Σ_j φ(k_j)
                                   Katharopoulos et al., 2020; random φ: Choromanski et al., 2021

It is attention with the scores φ(q) · φ(k), divided by their sum: the readable path, for any mask.
Where every query sees all keys, or all so far, the product is taken in the other order; looking
back a fixed number of places has no such rewriting. A query whose scores are all 0 gets zeros, as
if it saw nothing: relu can give this, and random features for keys so long that e^(−|k|²) is 0.

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
from regard.attention.feature_maps import EluPlusOne, FeatureMap, RandomFeatures, Relu, divided
from regard.attention.function import (
    AttentionInputs,
    FastOutput,
    HeadShape,
    RecurrentAttentionFunction,
)
from regard.attention.kinds import AttentionKind, kind
from regard.attention.masks.mask import Grid, Mask
from regard.core.errors import UserError

CHUNK = 64
"Places that meet each other directly; what lies before them is met as a sum."


@kind(
    "linear",
    cost="n · d²",
    masks=("causal", "bidirectional", "padding", "cross"),
    relations=(),
)
class LinearAttention(AttentionKind):
    """Features instead of a softmax: time grows with n, decoding has a state of fixed size."""

    feature_map: Literal["elu", "relu", "random"] = "elu"
    "elu + 1, relu, or random features whose products are e^(q · k / √d) on average."
    features: int = Field(default=0, ge=0)
    "How many random features a head has; 0 takes four times its width."
    seed: int = 0
    "Decides the random features, together with the layer's number."

    def build(self, shape: HeadShape) -> RecurrentAttentionFunction:
        return FeatureAttention(self._map(shape))

    def _map(self, shape: HeadShape) -> FeatureMap:
        if self.feature_map == "elu":
            return EluPlusOne()
        if self.feature_map == "relu":
            return Relu()
        digest = hashlib.sha256(f"{self.seed}/random features/{shape.layer}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        features = self.features or 4 * shape.width
        return RandomFeatures(shape.width, features, generator=generator)


class FeatureAttention(RecurrentAttentionFunction):
    drops_weights = False  # on the fast paths there are none to drop

    def __init__(self, feature_map: FeatureMap) -> None:
        super().__init__()
        self.feature_map = feature_map

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(b,h,i,d), (b,h,j,d) -> (b,h,i,j), never negative"""
        return self.feature_map.of_queries(q) @ self.feature_map.of_keys(k).transpose(-2, -1)

    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        seen = scores.masked_fill(~allowed, 0.0)
        return divided(seen, seen.sum(dim=-1, keepdim=True))

    def fast(self, asked: AttentionInputs) -> FastOutput | None:
        mask, grid = asked.mask, asked.grid
        pattern = mask.structure.pattern
        if (
            asked.bias is not None
            or pattern is None
            or (pattern == "causal" and not grid.from_start)
        ):
            return None
        # With either pattern the last query sees every key that may be seen at all.
        valid = mask.on(grid.part(slice(-1, None), slice(None)))
        queries, keys, values = self._features(asked.q, asked.k, asked.v, valid)
        if pattern == "everything":
            return FastOutput(
                _mean(queries @ (keys.transpose(-2, -1) @ values)), "linear-everything"
            )
        mixed, _ = _running(queries, keys, values)
        return FastOutput(_mean(mixed), "linear-causal")

    def advance(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Mask, state: RecurrentState
    ) -> Tensor:
        new = q.shape[-2]
        if mask.structure.pattern != "causal":
            raise UserError(
                f"linear attention keeps a sum of its past and cannot go on under the mask "
                f"{mask.name}",
                topic="attention",
                hint="Decode with a causal mask, or read the whole row at once without a cache.",
            )
        end = state.length + new
        mask.check_fits(rows=q.shape[0], keys=end, positions=end)
        row = Grid.over(queries=1, keys=end, batch=q.shape[0], first_query=end - 1, device=q.device)
        valid = mask.on(row.part(slice(None), slice(state.length, end)))
        mixed, past = _running(
            *self._features(q, k, v, valid), before=state.state[0] if state.state else None
        )
        state.take([past], positions=new)
        return _mean(mixed)

    def _features(
        self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Features of queries and keys, 0 for keys that are not valid (b,1,1,j); values beside 1.

        The 1 sums the weights up along with the values that they weigh."""
        keys = self.feature_map.of_keys(k).masked_fill(~valid.transpose(-2, -1), 0.0)
        return self.feature_map.of_queries(q), keys, F.pad(v, (0, 1), value=1.0)


def _running(
    queries: Tensor, keys: Tensor, values: Tensor, *, before: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Σ_{j ≤ i} (queries_i · keys_j) values_j, (b,h,i,e), and Σ_j keys_j values_jᵀ, (b,h,f,e).

    Inside a chunk each place meets each; what came before the chunk is a sum, which starts from
    `before`. Memory: n · (d + chunk), and a sum for each chunk.
    """
    positions = queries.shape[-2]
    chunk = min(CHUNK, positions)
    queries, keys, values = (_in_chunks(x, chunk) for x in (queries, keys, values))
    sums = keys.transpose(-2, -1) @ values  # (b,h,c,f,e)
    first = torch.zeros_like(sums[:, :, :1]) if before is None else before[:, :, None]
    # Shifted, not a sum less the chunk's own: that would tell of the chunk's end, by its rounding.
    pasts = torch.cat([first, sums], dim=2).cumsum(dim=2)
    inside = (queries @ keys.transpose(-2, -1)).tril()
    mixed = inside @ values + queries @ pasts[:, :, :-1]
    return mixed.flatten(2, 3)[:, :, :positions], pasts[:, :, -1]


def _in_chunks(x: Tensor, chunk: int) -> Tensor:
    """(b,h,n,d) -> (b,h,c,chunk,d), the last chunk filled up with zeros, which add nothing."""
    b, h, n, d = x.shape
    return F.pad(x, (0, 0, 0, -n % chunk)).reshape(b, h, -1, chunk, d)


def _mean(mixed: Tensor) -> Tensor:
    """(b,h,i,e) -> (b,h,i,d): the values, divided by the sum of what weighed them."""
    return divided(mixed[..., :-1], mixed[..., -1:])
