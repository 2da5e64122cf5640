"""Statistics of a corpus, as a run's results and `regard corpus stats` show them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MIN_CONTAMINATION = 0.01
"Fraction of a split's items that overlap with training from which on scores leave them out."


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
    """How many items of a split stand in training too, and whether their labels agree there."""

    items: int
    "Of the split."
    exact: int = 0
    "Stand in training word for word."
    near: int = 0
    "Stand in training with small changes."
    agree: int | None = None
    "Overlapping items whose row in training has the same label; None where there are no labels."
    flipped: int | None = None
    "Those whose row in training has another label."

    alike: int = 0
    "Items near to a row in training by wording alone; their labels agree no more than by chance."

    @property
    def overlapping(self) -> int:
        return self.exact + self.near

    @property
    def is_contaminated(self) -> bool:
        """Whether so many items overlap that scores have to leave them out."""
        return self.overlapping > 0 and self.overlapping >= MIN_CONTAMINATION * self.items


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
