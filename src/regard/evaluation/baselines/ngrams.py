"""N-gram language models with interpolated Kneser-Ney smoothing.

    p_k(w | h) = max(c_k(h w) − D_k, 0) / c_k(h)  +  D_k · N_k(h) / c_k(h) · p_{k−1}(w | h′)

c at the highest order counts occurrences; at each lower order it counts the distinct tokens that
precede the n-gram (continuation counts). N_k(h) is the number of distinct tokens that follow h, h′
is h without its first token, and an unseen context backs off to p_{k−1}. Order 1 is interpolated
with the uniform distribution, so that no token has probability zero. One discount per order,
D = n₁ / (n₁ + 2·n₂), from the numbers of n-grams with counts 1 and 2.
Kneser and Ney, 1995; Chen and Goodman, 1999.

A document d is modelled as start … start d stop: its tokens and the stop are predicted, as by a
neural decoder, so losses compare token by token. Order 1 is the unigram model.

An n-gram is one int64 key, a number in base `vocabulary` with its tokens as digits: the last digit
is the predicted token, the others are its context, and dropping the first digit gives the n-gram
of the next lower order. Counting is then sorting, and lookup is binary search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError
from regard.core.progress import OnProgress

Ids: TypeAlias = NDArray[Any]
Keys: TypeAlias = NDArray[np.int64]

TOKENS_AT_ONCE = 500_000
"Approximate predicted tokens per chunk."
MAX_KEY = 2**63 - 1


@dataclass(frozen=True)
class NgramLevel:
    """One order: n-grams with counts, contexts with totals and numbers of followers."""

    grams: Keys
    counts: NDArray[np.int32]
    contexts: Keys
    totals: NDArray[np.int64]
    followers: NDArray[np.int32]
    discount: float

    @classmethod
    def of(cls, grams: Keys, counts: NDArray[np.int32], *, vocabulary: int) -> NgramLevel:
        """From ascending n-grams, whose contexts are then ascending too."""
        gram_contexts = grams // vocabulary
        contexts, followers = _unique_counts(gram_contexts)
        totals = np.add.reduceat(counts, _run_starts(gram_contexts), dtype=np.int64)
        return cls(grams, counts, contexts, totals, followers, _discount(counts))

    def interpolate(
        self, keys: Keys, lower: NDArray[np.float64], *, vocabulary: int
    ) -> NDArray[np.float64]:
        """p_k for each key, given p_{k−1} for the same tokens."""
        context, context_seen = _find(keys // vocabulary, self.contexts)
        gram, gram_seen = _find(keys, self.grams)
        total = self.totals[context]
        discounted = np.where(gram_seen, np.maximum(self.counts[gram] - self.discount, 0), 0)
        backoff = self.discount * self.followers[context]
        return np.where(context_seen, (discounted + backoff * lower) / total, lower)


@dataclass(frozen=True)
class KneserNey:
    """A fitted n-gram model; `levels` run from order 1 upwards."""

    levels: tuple[NgramLevel, ...]
    vocabulary: int
    start: int
    stop: int
    trained_tokens: int
    "Training tokens, stops included."
    is_truncated: bool
    "Whether the token limit left training text unused."

    @property
    def order(self) -> int:
        return len(self.levels)

    @classmethod
    def fit(
        cls,
        documents: Iterable[Ids],
        *,
        order: int = 3,
        vocabulary: int,
        start: int,
        stop: int,
        token_limit: int = 10_000_000,
        on_progress: OnProgress | None = None,
    ) -> KneserNey:
        """Count documents of token ids (without special tokens) up to `token_limit` predictions.

        Peak memory is bounded by the limit, not by the corpus: about 20 bytes per token of
        ordinary text, 60 if all n-grams are distinct."""
        check_keys_fit(order, vocabulary)
        for name, special in (("start", start), ("stop", stop)):
            if not 0 <= special < vocabulary:
                raise _error(f"{name} = {special} is outside the vocabulary of {vocabulary:,}")
        if token_limit < 1:
            raise _error(f"a token limit of {token_limit} leaves nothing to count")
        chunks: list[Keys] = []
        tokens = 0
        is_truncated = False
        for keys, _ in _chunks(documents, order, vocabulary=vocabulary, start=start, stop=stop):
            if tokens == token_limit:
                is_truncated = True
                break
            chunks.append(keys[: token_limit - tokens])
            is_truncated = len(keys) > token_limit - tokens
            tokens += len(chunks[-1])
            if on_progress is not None:
                on_progress(tokens, None)
        if not tokens:
            raise _error(
                "there is no training text to count n-grams in", hint="Give at least one document."
            )
        levels = _levels(chunks, order, vocabulary=vocabulary)
        return cls(
            levels, vocabulary, start, stop, trained_tokens=tokens, is_truncated=is_truncated
        )

    def unigram(self) -> KneserNey:
        """The order-1 model of the same text; its counts are sums over the highest order."""
        top = self.levels[-1]
        counts = np.bincount(
            top.grams % self.vocabulary, weights=top.counts, minlength=self.vocabulary
        )
        tokens = np.flatnonzero(counts)
        level = NgramLevel.of(tokens, counts[tokens].astype(np.int32), vocabulary=self.vocabulary)
        return replace(self, levels=(level,))

    def nll(
        self, documents: Iterable[Ids], is_scored: Sequence[NDArray[np.bool_]] | None = None
    ) -> NDArray[np.float64]:
        """Negative log-likelihood in nats of each document, its stop included.

        `is_scored` marks which predictions of each document (the stop last) count."""
        nats, document_numbers = [np.empty(0)], [np.empty(0, dtype=np.int64)]
        weights = None if is_scored is None else np.concatenate(is_scored)
        done = 0
        chunks = _chunks(
            documents, self.order, vocabulary=self.vocabulary, start=self.start, stop=self.stop
        )
        for keys, numbers in chunks:
            starts = _run_starts(numbers)
            losses = -np.log(self._p(keys))
            if weights is not None:
                losses *= weights[done : done + len(keys)]
            done += len(keys)
            nats.append(np.add.reduceat(losses, starts))
            document_numbers.append(numbers[starts])
        # A document longer than a chunk has several sums.
        sums = np.bincount(np.concatenate(document_numbers), weights=np.concatenate(nats))
        return np.asarray(sums, dtype=np.float64)

    def probabilities(self, context: Sequence[int]) -> NDArray[np.float64]:
        """The distribution of the next token after `context`, over the whole vocabulary."""
        padded = [self.start] * (self.order - 1) + list(context)
        history = 0
        for token in padded[len(padded) - (self.order - 1) :]:
            history = history * self.vocabulary + token
        return self._p(history * self.vocabulary + np.arange(self.vocabulary))

    def _p(self, keys: Keys) -> NDArray[np.float64]:
        p = np.full(len(keys), 1 / self.vocabulary)
        for order, level in enumerate(self.levels, start=1):
            p = level.interpolate(keys % self.vocabulary**order, p, vocabulary=self.vocabulary)
        return p


def _levels(chunks: list[Keys], order: int, *, vocabulary: int) -> tuple[NgramLevel, ...]:
    """Levels 1 … order from the keys of all occurrences. Empties `chunks` and sorts in place, to
    keep peak memory low."""
    keys = _concatenate(chunks)
    levels = []
    for length in range(order, 0, -1):
        keys.sort()
        keys, counts = _unique_counts(keys)
        levels.append(NgramLevel.of(keys, counts, vocabulary=vocabulary))
        # Each distinct n-gram is one continuation count of its suffix.
        keys = keys % vocabulary ** (length - 1)
    return tuple(reversed(levels))


def _concatenate(chunks: list[Keys]) -> Keys:
    """All chunks in one array, each freed once copied: memory for one copy, not two."""
    keys = np.empty(sum(len(chunk) for chunk in chunks), dtype=np.int64)
    end = len(keys)
    while chunks:
        chunk = chunks.pop()
        keys[end - len(chunk) : end] = chunk
        end -= len(chunk)
    return keys


def _chunks(
    documents: Iterable[Ids], order: int, *, vocabulary: int, start: int, stop: int
) -> Iterator[tuple[Keys, NDArray[np.int64]]]:
    """Highest-order keys of the predicted tokens, about `TOKENS_AT_ONCE` per chunk, and the
    document number of each."""
    pieces: list[NDArray[np.int64]] = []
    numbers: list[int] = []
    tokens = 0
    for number, document in enumerate(documents):
        ids = _checked(document, number=number, vocabulary=vocabulary)
        for piece in _pieces(ids, order, start=start, stop=stop):
            pieces.append(piece)
            numbers.append(number)
            tokens += len(piece) - (order - 1)
            if tokens >= TOKENS_AT_ONCE:
                yield _keys(pieces, numbers, order=order, vocabulary=vocabulary)
                pieces, numbers, tokens = [], [], 0
    if pieces:
        yield _keys(pieces, numbers, order=order, vocabulary=vocabulary)


def _pieces(ids: Ids, order: int, *, start: int, stop: int) -> Iterator[NDArray[np.int64]]:
    """start … start ids stop, in pieces of bounded length, each preceded by its order − 1 context
    tokens: a corpus may be one long document."""
    context = order - 1
    starts = [start] * context
    for begin in range(0, len(ids) + 1, TOKENS_AT_ONCE):
        end = begin + TOKENS_AT_ONCE
        yield np.concatenate(
            (
                starts[min(begin, context) :],
                ids[max(0, begin - context) : end],
                [stop] if end > len(ids) else [],
            ),
            dtype=np.int64,
            casting="unsafe",
        )


def _keys(
    pieces: list[NDArray[np.int64]], numbers: list[int], *, order: int, vocabulary: int
) -> tuple[Keys, NDArray[np.int64]]:
    lengths = np.array([len(piece) for piece in pieces]) - (order - 1)
    tokens = np.concatenate(pieces)
    # A token of piece m is preceded by the contexts of m + 1 pieces, which are not predicted.
    position = np.arange(lengths.sum()) + np.repeat(
        (order - 1) * np.arange(1, len(pieces) + 1), lengths
    )
    keys = np.zeros(len(position), dtype=np.int64)
    for distance in range(order - 1, -1, -1):
        keys = keys * vocabulary + tokens[position - distance]
    return keys, np.repeat(np.array(numbers, dtype=np.int64), lengths)


def _unique_counts(ascending: Keys) -> tuple[Keys, NDArray[np.int32]]:
    """Distinct values of a sorted array and their counts."""
    starts = _run_starts(ascending)
    counts = np.empty(len(starts), dtype=np.int32)
    np.subtract(starts[1:], starts[:-1], out=counts[:-1], casting="unsafe")
    counts[-1] = len(ascending) - starts[-1]
    return ascending[starts], counts


def _run_starts(ascending: Keys) -> NDArray[np.intp]:
    """Index of the first occurrence of each distinct value of a sorted array."""
    changes = np.ones(len(ascending), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def _find(keys: Keys, table: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """An index into the sorted table for each key, and whether the table contains the key."""
    index = np.minimum(np.searchsorted(table, keys), len(table) - 1)
    return index, table[index] == keys


def _discount(counts: NDArray[np.int32]) -> float:
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    # In toy corpora n₁ or n₂ may be 0: the estimate would be 0 or 1 and leave unseen tokens or
    # singletons no probability, so the discount is one half there.
    return once / (once + 2 * twice) if once and twice else 0.5


def _checked(document: Ids, *, number: int, vocabulary: int) -> Ids:
    ids = np.asarray(document)
    if len(ids) and (
        ids.dtype.kind not in "iu" or not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary
    ):
        raise _error(
            f"document {number + 1:,} has an id outside the vocabulary of {vocabulary:,}",
            hint="Encode the text with the tokenizer whose size you pass.",
        )
    return ids


def check_keys_fit(order: int, vocabulary: int) -> None:
    """Raise, before any counting, where n-grams of this order do not fit into 64-bit keys."""
    if order < 1 or vocabulary < 1:
        raise _error(
            f"an n-gram model of order {order} over {vocabulary} tokens is impossible",
            hint="Both must be at least 1.",
        )
    if vocabulary**order > MAX_KEY:
        max_order = next(k for k in range(order, 0, -1) if vocabulary**k <= MAX_KEY)
        raise _error(
            f"{order}-grams over {vocabulary:,} tokens do not fit into 64-bit keys",
            hint=f"Give an order of at most {max_order}.",
        )


def _error(what: str, *, hint: str = "") -> UserError:
    return UserError(what, topic="baseline", hint=hint)
