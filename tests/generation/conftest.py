"""Small models whose generation can be checked by brute force."""

import pytest
import torch
from torch import Tensor, nn


class TableCache:
    """Holds every past token, padding included, as a KV cache holds keys."""

    def __init__(self, rows: int) -> None:
        self.ids = torch.empty(rows, 0, dtype=torch.long)

    @property
    def length(self) -> int:
        return self.ids.shape[1]

    def reorder(self, rows: Tensor) -> None:
        self.ids = self.ids[rows]

    def clear(self) -> None:
        self.ids = self.ids[:, :0]


class TableModel(nn.Module):
    """Next-token logits looked up by the last two tokens and their position (mod 5).

    The oracle is `logits_after`, which takes a plain list of tokens and no cache."""

    def __init__(self, vocabulary: int, *, context: int = 64, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        shape = (5, vocabulary + 1, vocabulary, vocabulary)
        self.table = torch.randn(shape, generator=generator, dtype=torch.float64) * 2
        self.context = context
        self.step_lengths: list[int] = []

    def logits_after(self, ids: list[int]) -> Tensor:
        before = ids[-2] if len(ids) > 1 else -1
        return self.table[(len(ids) - 1) % 5, before, ids[-1]]

    def new_cache(self, rows: int) -> TableCache:
        return TableCache(rows)

    def step(
        self, ids: Tensor, *, valid: Tensor | None, positions: Tensor, cache: TableCache
    ) -> Tensor:
        self.step_lengths.append(ids.shape[1])
        cache.ids = torch.cat([cache.ids, ids], dim=1)
        valid = torch.ones_like(cache.ids, dtype=torch.bool) if valid is None else valid
        positions = positions.expand(len(ids), -1)
        assert cache.ids.shape == valid.shape
        assert cache.length <= self.context
        logits = []
        for row, is_token, position in zip(
            cache.ids, valid, positions[:, -1].tolist(), strict=True
        ):
            tokens = row[is_token].tolist()
            assert position == len(tokens) - 1
            logits.append(self.logits_after(tokens))
        return torch.stack(logits)


class AttentionModel(nn.Module):
    """One layer of causal attention with learned positions, dropout, and a KV cache."""

    def __init__(self, vocabulary: int, *, context: int = 16, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.context = context
        self.tokens = nn.Embedding(vocabulary, 8)
        self.positions = nn.Embedding(context, 8)
        self.qkv = nn.Linear(8, 24)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(8, vocabulary)
        self.double()

    def new_cache(self, rows: int) -> "KeyValueCache":
        return KeyValueCache(rows)

    def step(
        self, ids: Tensor, *, valid: Tensor | None, positions: Tensor, cache: "KeyValueCache"
    ) -> Tensor:
        x = self.dropout(self.tokens(ids) + self.positions(positions))
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        cache.keys = torch.cat([cache.keys, k], dim=1)
        cache.values = torch.cat([cache.values, v], dim=1)
        valid = cache.keys[:, :, 0] == cache.keys[:, :, 0] if valid is None else valid
        scores = (q[:, -1:] @ cache.keys.mT).masked_fill(~valid[:, None], -torch.inf)
        return self.out((scores.softmax(dim=-1) @ cache.values).squeeze(1))

    def uncached(self, ids: list[int]) -> Tensor:
        new = torch.tensor([ids])
        valid = torch.ones_like(new, dtype=torch.bool)
        positions = torch.arange(len(ids))[None]
        return self.step(new, valid=valid, positions=positions, cache=self.new_cache(1))[0]


class KeyValueCache:
    def __init__(self, rows: int) -> None:
        self.keys = torch.empty(rows, 0, 8, dtype=torch.float64)
        self.values = torch.empty(rows, 0, 8, dtype=torch.float64)

    @property
    def length(self) -> int:
        return self.keys.shape[1]

    def reorder(self, rows: Tensor) -> None:
        self.keys, self.values = self.keys[rows], self.values[rows]

    def clear(self) -> None:
        self.keys, self.values = self.keys[:, :0], self.values[:, :0]


@pytest.fixture
def table_model():
    return TableModel


@pytest.fixture
def attention_model():
    return AttentionModel
