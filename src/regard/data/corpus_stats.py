"""Corpus statistics: sizes, lengths, unknown tokens, and the overlap of dev and test with train."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus import SPLITS
from regard.data.statistics import (
    CorpusStatistics,
    LengthHistogram,
    SplitOverlap,
    SplitStatistics,
)
from regard.data.token_cache.cache import TokenCache

BINS = 24
CHUNK_TOKENS = 1 << 22


def corpus_statistics(
    cache: TokenCache, overlap: Mapping[str, SplitOverlap], *, overlapping: int = 0
) -> CorpusStatistics:
    """Statistics of every split, and the overlap in its texts; `overlapping` were left out."""
    splits = {name: cache.split(name) for name in SPLITS}
    edges = histogram_edges(np.concatenate([split.lengths for split in splits.values()]))
    return CorpusStatistics(
        name=cache.meta["corpus"],
        generated=cache.meta["generated"],
        splits={
            name: split_statistics(
                split.lengths,
                edges,
                bytes=int(split.meta["bytes"]),
                unique_tokens=_count_unique(split.token_runs()),
                unknown=split.unknown,
                fingerprint=split.fingerprint,
                truncated_tokens=int(split.meta["truncated_tokens"]),
            )
            for name, split in splits.items()
        },
        overlap=dict(overlap),
        dropped={
            **cache.meta["dropped"],
            "overlapping": overlapping,
            "without_tokens": sum(len(split.meta["without_tokens"]) for split in splits.values()),
        },
    )


def split_statistics(
    lengths: NDArray[Any],
    edges: list[int],
    *,
    bytes: int,
    unique_tokens: int,
    unknown: int,
    fingerprint: str,
    truncated_tokens: int,
) -> SplitStatistics:
    """From the number of tokens of each document and the edges of the histogram."""
    tokens, some = int(lengths.sum()), len(lengths) > 0
    return SplitStatistics(
        documents=len(lengths),
        tokens=tokens,
        bytes=bytes,
        unique_tokens=unique_tokens,
        unknown_rate=unknown / tokens if tokens else 0.0,
        fingerprint=fingerprint,
        mean_length=float(lengths.mean()) if some else 0.0,
        median_length=float(np.median(lengths)) if some else 0.0,
        max_length=int(lengths.max()) if some else 0,
        truncated_tokens=truncated_tokens,
        histogram=LengthHistogram(edges, np.histogram(lengths, edges)[0].tolist()),
    )


def _count_unique(runs: Iterable[NDArray[Any]]) -> int:
    seen = np.zeros(0, dtype=bool)
    for tokens in runs:
        for at in range(0, len(tokens), CHUNK_TOKENS):
            chunk = tokens[at : at + CHUNK_TOKENS]
            seen.resize(max(len(seen), int(chunk.max()) + 1), refcheck=False)
            seen[chunk] = True
    return int(np.count_nonzero(seen))


def histogram_edges(lengths: NDArray[np.int64]) -> list[int]:
    """Integer edges that cover every length: equal widths, or growing ones for a long tail."""
    if not len(lengths):
        return [0, 1]
    shortest, longest = int(lengths.min()), int(lengths.max())
    long_tail = longest > 20 * max(1.0, float(np.median(lengths)))
    if not long_tail:
        width = next(w for w in _round_numbers() if (longest - shortest) // w < BINS)
        return list(range(shortest // width * width, longest + width + 1, width))
    edges = [0, 1]
    while edges[-1] <= longest:
        # √2 apart once that is more than one: … 4 5 6 8 11 16 23 32
        edges.append(max(edges[-1] + 1, round(2 ** (len(edges) / 2 - 0.5))))
    return edges


def _round_numbers() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10
