"""The two decoder sizes of the benchmarks, and their FLOPs by formula."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.batch import Batch
from regard.models.architectures.language_model import LanguageModel
from regard.models.families.decoder import Decoder


@dataclass(frozen=True)
class Size:
    """A decoder and its batch shape."""

    name: str
    width: int
    layers: int
    heads: int
    vocabulary: int
    rows: int
    positions: int

    @property
    def tokens(self) -> int:
        return self.rows * self.positions

    @property
    def matrix_parameters(self) -> int:
        """Parameters of the matmuls of every token: blocks and output layer, no biases or norms."""
        return 12 * self.layers * self.width**2 + self.vocabulary * self.width

    @property
    def step_operations(self) -> int:
        """FLOPs of forward and backward: 2 per multiply-add, times 3.

        Includes attention scores and weighted values of all causal pairs, not the embedding lookup.
        """
        pairs = self.rows * self.positions * (self.positions + 1) // 2
        attention = 2 * 2 * self.layers * self.width * pairs
        return 3 * (2 * self.matrix_parameters * self.tokens + attention)

    def family(self, *, dropout: float = 0.0, **changes: object) -> Decoder:
        settings = {
            "width": self.width,
            "layers": self.layers,
            "heads": self.heads,
            "context": self.positions,
            "dropout": dropout,
        }
        return Decoder.model_validate({**settings, **changes})

    def model(self, *, dropout: float = 0.0, **changes: object) -> LanguageModel:
        return self.family(dropout=dropout, **changes).build(vocabulary=self.vocabulary, seed=0)

    def ids(self, *, seed: int = 1) -> torch.Tensor:
        """(b,t+1): inputs and targets, shifted by one."""
        generator = torch.Generator().manual_seed(seed)
        shape = (self.rows, self.positions + 1)
        return torch.randint(4, self.vocabulary, shape, generator=generator)

    def batch(self, *, seed: int = 1) -> Batch:
        ids = self.ids(seed=seed)
        ones = torch.ones(self.rows, self.positions)
        return Batch(
            ids=ids[:, :-1].contiguous(),
            targets=ids[:, 1:].contiguous(),
            weights=ones,
            valid=ones.bool(),
            segments=None,
            rows=tuple(range(self.rows)),
        )


NARROW = Size("width 48, vocabulary 26.6k", 48, 3, 3, 26_600, rows=32, positions=100)
WIDE = Size("width 192, vocabulary 8k", 192, 6, 6, 8_000, rows=16, positions=256)
SIZES = (NARROW, WIDE)


def matmul_peak(*, size: int = 1024, rounds: int = 20) -> float:
    """FLOP/s of the best of several large float32 matmuls."""
    import time

    a, b = torch.randn(size, size), torch.randn(size, size)
    best = 0.0
    for _ in range(rounds):
        began = time.perf_counter()
        torch.mm(a, b)
        best = max(best, 2 * size**3 / (time.perf_counter() - began))
    return best
