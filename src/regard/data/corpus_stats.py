"""What a corpus holds: sizes, lengths, unknown tokens, and how much of dev and test is in train.

Overlap is measured two ways, both on casefolded words: documents of dev or test that stand in
train word for word, and their n-word sequences (8 by default) that occur anywhere in train. Only
the hashes of the small part are held; train is streamed past them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus import SPLITS, Corpus, Split
from regard.data.token_cache import CachedSplit, TokenCache

NGRAM = 8
BINS = 24
BATCH_WORDS = 1 << 18
TOKENS_AT_ONCE = 1 << 22
# An odd multiplier makes h ↦ h·m a bijection of the 64-bit words, so that order matters in Σ hₖ·mᵏ.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Histogram:
    """`counts[i]` documents have edges[i] ≤ length < edges[i + 1]."""

    edges: list[int]
    counts: list[int]


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
    longest: int
    lost_to_cut: int
    histogram: Histogram


@dataclass(frozen=True)
class Overlap:
    """Shares of one part that are in train too, and how many were looked at."""

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
    parts: dict[str, SplitStatistics]
    overlap: dict[str, Overlap]
    dropped: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def corpus_statistics(cache: TokenCache, corpus: Corpus, *, n: int = NGRAM) -> CorpusStatistics:
    """Everything above; reads each part's texts once more for the overlap."""
    parts = {name: cache.part(name) for name in SPLITS}
    edges = histogram_edges(np.concatenate([part.lengths for part in parts.values()]))
    return CorpusStatistics(
        name=cache.meta["corpus"],
        generated=cache.meta["generated"],
        parts={name: _describe(part, edges) for name, part in parts.items()},
        overlap=measure_overlap(corpus, n=n),
        dropped={
            **cache.meta["dropped"],
            "without_tokens": sum(part.meta["without_tokens"] for part in parts.values()),
        },
    )


def _describe(part: CachedSplit, edges: list[int]) -> SplitStatistics:
    lengths = part.lengths
    tokens = len(part.tokens)
    some = len(part) > 0
    return SplitStatistics(
        documents=len(part),
        tokens=tokens,
        bytes=int(part.meta["bytes"]),
        unique_tokens=_unique(part.tokens),
        unknown_rate=part.unknown / tokens if tokens else 0.0,
        fingerprint=part.fingerprint,
        mean_length=float(lengths.mean()) if some else 0.0,
        median_length=float(np.median(lengths)) if some else 0.0,
        longest=int(lengths.max()) if some else 0,
        lost_to_cut=int(part.meta["lost_to_cut"]),
        histogram=Histogram(edges, np.histogram(lengths, edges)[0].tolist()),
    )


def _unique(tokens: NDArray[Any]) -> int:
    seen = np.zeros(0, dtype=bool)
    for start in range(0, len(tokens), TOKENS_AT_ONCE):
        some = tokens[start : start + TOKENS_AT_ONCE]
        short = int(some.max()) + 1 - len(seen)
        if short > 0:
            seen = np.concatenate([seen, np.zeros(short, dtype=bool)])
        seen[some] = True
    return int(np.count_nonzero(seen))


def histogram_edges(lengths: NDArray[np.int64]) -> list[int]:
    """Whole-number edges around every length: even widths, or widening ones for a long tail."""
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


class TextSource(Protocol):
    """What overlap is looked for in."""

    def texts(self, part: Split) -> Iterator[str]: ...


def measure_overlap(corpus: TextSource, *, n: int = NGRAM) -> dict[str, Overlap]:
    """For dev and test, the shares of documents and n-grams that train holds too."""
    held: dict[Split, tuple[_Held, _Held]] = {}
    for part in SPLITS[1:]:
        batches = list(_hashed(corpus.texts(part), n=n))
        held[part] = (_Held([docs for docs, _ in batches]), _Held([grams for _, grams in batches]))
    for documents, ngrams in _hashed(corpus.texts("train"), n=n):
        for held_documents, held_ngrams in held.values():
            held_documents.mark(documents)
            held_ngrams.mark(ngrams)
    return {
        part: Overlap(
            documents=documents.share(),
            ngrams=ngrams.share(),
            n=n,
            documents_counted=documents.total,
            ngrams_counted=ngrams.total,
        )
        for part, (documents, ngrams) in held.items()
    }


class _Held:
    """Hashes of the small part, how often each occurs there, and whether train has shown it."""

    def __init__(self, batches: list[Hashes]) -> None:
        every = np.concatenate([np.empty(0, np.uint64), *batches])
        self.hashes, self.counts = np.unique(every, return_counts=True)
        self.seen = np.zeros(len(self.hashes), dtype=bool)
        self.total = len(every)

    def mark(self, hashes: Hashes) -> None:
        if not len(self.hashes):
            return
        places = np.searchsorted(self.hashes, hashes)
        places[places == len(self.hashes)] = 0
        self.seen[places[self.hashes[places] == hashes]] = True

    def share(self) -> float:
        return int(self.counts[self.seen].sum()) / self.total if self.total else 0.0


def _hashed(texts: Iterator[str], *, n: int) -> Iterator[tuple[Hashes, Hashes]]:
    """Hashes of whole documents and of their n-grams, a batch of documents at a time."""
    documents: list[list[str]] = []
    waiting = 0
    for text in texts:
        words = text.casefold().split()
        documents.append(words)
        waiting += len(words)
        if waiting >= BATCH_WORDS:
            yield _hash_batch(documents, n=n)
            documents, waiting = [], 0
    if documents:
        yield _hash_batch(documents, n=n)


def _hash_batch(documents: list[list[str]], *, n: int) -> tuple[Hashes, Hashes]:
    # Python's hash of a string is keyed anew in every process, but both sides share this one.
    whole = np.fromiter((hash(" ".join(words)) for words in documents), np.int64, len(documents))
    counts = np.fromiter(map(len, documents), np.int64, len(documents))
    total = int(counts.sum())
    words = np.fromiter((hash(w) for words in documents for w in words), np.int64, total)
    return whole.view(np.uint64), ngram_hashes(words.view(np.uint64), counts, n=n)


def ngram_hashes(words: Hashes, counts: NDArray[np.int64], *, n: int) -> Hashes:
    """One hash for each run of n words that lies within one document of `counts[i]` words."""
    starts = len(words) - n + 1
    if starts <= 0:
        return np.empty(0, np.uint64)
    hashes = np.zeros(starts, np.uint64)
    for k in range(n):
        hashes = hashes * MULTIPLIER + words[k : k + starts]  # wraps at 2⁶⁴, as meant
    document = np.repeat(np.arange(len(counts)), counts)
    within: Hashes = hashes[document[:starts] == document[n - 1 :]]
    return within
