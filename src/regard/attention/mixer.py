"""A mixer moves information between places; multi-head attention is one built around a rule.

    head_h = attend(x W_q, m W_k, m W_v)_h        out = [head_1 … head_H] W_o        m = memory or x

Kinds that four factors (score, bias, normalise, mix) describe give a rule and are wrapped in
`MultiHeadAttention`. Shapes: b batch, i query, j key, w model width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.cache import LayerCache
from regard.attention.mask import Mask
from regard.attention.rule import HeadShape, Rule


class Mixer(nn.Module, ABC):
    """(b,i,w) -> (b,i,w), each place having looked where `mask` lets it."""

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        memory: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor: ...


class MultiHeadAttention(Mixer):
    """Separate projections for queries, keys and values, one rule for all heads."""

    def __init__(self, rule: Rule, shape: HeadShape, *, dropout: float) -> None:
        super().__init__()
        width = shape.heads * shape.width
        self.shape = shape
        self.rule = rule
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask,
        memory: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        source = x if memory is None else memory
        q = self._heads(self.query(x))
        k, v = self._heads(self.key(source)), self._heads(self.value(source))
        first_query = 0
        if cache is not None:
            first_query = cache.length
            k, v = cache.extend(k, v)
        attended = attend(
            q,
            k,
            v,
            mask,
            self.rule,
            first_query=first_query,
            dropout=self.dropout if self.training else 0.0,
        )
        out: Tensor = self.out(attended.out.transpose(1, 2).flatten(2))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        """(b,i,h·d) -> (b,h,i,d)"""
        return x.view(*x.shape[:2], self.shape.heads, self.shape.width).transpose(1, 2)
