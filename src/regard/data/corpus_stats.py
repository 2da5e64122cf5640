"""Corpus statistics: sizes, lengths, unknown tokens, and the overlap of dev and test with train.

Overlap is measured in two ways, both on casefolded words: documents of dev or test that are in
train word for word, and their n-grams (8 words by default) that occur anywhere in train. Only the
hashes of dev and test are held in memory; train is streamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus import SPLITS, Corpus, Split
from regard.data.grouping import grouped_by_size
from regard.data.statistics import (
    CorpusStatistics,
    LengthHistogram,
    SplitOverlap,
    SplitStatistics,
)
from regard.data.token_cache import TokenCache

NGRAM = 8
BINS = 24
BATCH_WORDS = 1 << 18
CHUNK_TOKENS = 1 << 22
# An odd multiplier makes h ↦ h·m a bijection of the 64-bit words, so that order matters in Σ hₖ·mᵏ.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Hashes = NDArray[np.uint64]


def corpus_statistics(cache: TokenCache, corpus: Corpus, *, n: int = NGRAM) -> CorpusStatistics:
    """Statistics of every split; reads all texts once more for the overlap."""
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
                unique_tokens=_count_unique(split.tokens),
                unknown=split.unknown,
                fingerprint=split.fingerprint,
                truncated_tokens=int(split.meta["truncated_tokens"]),
            )
            for name, split in splits.items()
        },
        overlap=measure_overlap(corpus.texts, n=n),
        dropped={
            **cache.meta["dropped"],
            "without_tokens": sum(split.meta["without_tokens"] for split in splits.values()),
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


def _count_unique(tokens: NDArray[Any]) -> int:
    chunks = [tokens[at : at + CHUNK_TOKENS] for at in range(0, len(tokens), CHUNK_TOKENS)]
    seen = np.zeros(max((int(chunk.max()) for chunk in chunks), default=-1) + 1, dtype=bool)
    for chunk in chunks:
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


def measure_overlap(
    texts: Callable[[Split], Iterable[str]], *, n: int = NGRAM
) -> dict[str, SplitOverlap]:
    """For dev and test, the fractions of documents and n-grams that are in train too."""
    held_out: dict[Split, tuple[_HashSet, _HashSet]] = {}
    for split in SPLITS[1:]:
        batches = list(_hash_texts(texts(split), n=n))
        documents = _HashSet([documents for documents, _ in batches])
        held_out[split] = (documents, _HashSet([ngrams for _, ngrams in batches]))
    for train_documents, train_ngrams in _hash_texts(texts("train"), n=n):
        for documents, ngrams in held_out.values():
            documents.mark(train_documents)
            ngrams.mark(train_ngrams)
    return {
        split: SplitOverlap(
            documents=documents.marked_fraction(),
            ngrams=ngrams.marked_fraction(),
            n=n,
            documents_counted=documents.total,
            ngrams_counted=ngrams.total,
        )
        for split, (documents, ngrams) in held_out.items()
    }


class _HashSet:
    """Hashes of a held-out split, how often each occurs there, and which of them occur in train."""

    def __init__(self, batches: list[Hashes]) -> None:
        hashes = np.concatenate([np.empty(0, np.uint64), *batches])
        self.hashes, self.counts = np.unique(hashes, return_counts=True)
        self.marked = np.zeros(len(self.hashes), dtype=bool)
        self.total = len(hashes)

    def mark(self, hashes: Hashes) -> None:
        if not len(self.hashes):
            return
        indices = np.searchsorted(self.hashes, hashes)
        indices[indices == len(self.hashes)] = 0
        self.marked[indices[self.hashes[indices] == hashes]] = True

    def marked_fraction(self) -> float:
        return int(self.counts[self.marked].sum()) / self.total if self.total else 0.0


def _hash_texts(texts: Iterable[str], *, n: int) -> Iterator[tuple[Hashes, Hashes]]:
    """Hashes of documents and of their n-grams, a batch of documents at a time."""
    documents = (text.casefold().split() for text in texts)
    for batch in grouped_by_size(documents, len, total=BATCH_WORDS):
        yield _hash_batch(batch, n=n)


def _hash_batch(documents: list[list[str]], *, n: int) -> tuple[Hashes, Hashes]:
    # Python salts string hashes per process; all hashes compared here are of one process.
    whole = np.fromiter((hash(" ".join(words)) for words in documents), np.int64, len(documents))
    counts = np.fromiter(map(len, documents), np.int64, len(documents))
    total = int(counts.sum())
    words = np.fromiter((hash(w) for words in documents for w in words), np.int64, total)
    return whole.view(np.uint64), ngram_hashes(words.view(np.uint64), counts, n=n)


def ngram_hashes(words: Hashes, counts: NDArray[np.int64], *, n: int) -> Hashes:
    """One hash per n-gram within a document; document i has `counts[i]` words."""
    starts = len(words) - n + 1
    if starts <= 0:
        return np.empty(0, np.uint64)
    hashes = np.zeros(starts, np.uint64)
    for k in range(n):
        hashes = hashes * MULTIPLIER + words[k : k + starts]  # wraps at 2⁶⁴, as intended
    document = np.repeat(np.arange(len(counts)), counts)
    within: Hashes = hashes[document[:starts] == document[n - 1 :]]
    return within
