"""Statistics of a corpus, as a run's results and `regard corpus stats` show them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class LengthHistogram:
    """`counts[i]` documents have edges[i] ≤ length < edges[i + 1]."""

    edges: list[int]
    counts: list[int]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError(f"{len(self.edges)} edges cannot bound {len(self.counts)} counts")


@dataclass(frozen=True)
class SplitStatistics:
    documents: int
    tokens: int
    bytes: int
    unique_tokens: int
    unknown_rate: float
    fingerprint: str
    mean_length: float
    median_length: float
    max_length: int
    truncated_tokens: int
    "Tokens beyond the maximum document length, which were dropped."
    histogram: LengthHistogram


@dataclass(frozen=True)
class SplitOverlap:
    """Fractions of one split that are in train too, and the numbers they are fractions of."""

    documents: float
    ngrams: float
    n: int
    "Words in an n-gram."
    documents_counted: int
    ngrams_counted: int


@dataclass(frozen=True)
class CorpusStatistics:
    name: str
    generated: bool
    splits: dict[str, SplitStatistics]
    overlap: dict[str, SplitOverlap]
    dropped: dict[str, Any]
    "Counts by reason; tables (such as counts by file) are possible too."

    @property
    def dropped_counts(self) -> dict[str, int]:
        """Reasons with a positive count."""
        return {why: n for why, n in self.dropped.items() if isinstance(n, int) and n}

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
