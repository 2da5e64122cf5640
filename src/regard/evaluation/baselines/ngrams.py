"""N-gram language models with interpolated Kneser-Ney smoothing: what counting alone achieves.

    p_k(w | h) = max(c_k(h w) − D_k, 0) / c_k(h)  +  D_k · N_k(h) / c_k(h) · p_{k−1}(w | h′)

c at the highest order counts occurrences; at each lower order it counts in how many different
contexts the n-gram was met (continuation counts). N_k(h) is the number of different tokens seen
after h, h′ is h without its first token, and a context never seen passes on p_{k−1} unchanged. The
last order is interpolated with the uniform distribution, so that no token has probability zero.
One discount an order, D = n₁ / (n₁ + 2·n₂), from the n-grams counted once and twice.
Kneser and Ney, 1995; Chen and Goodman, 1999.

A document d is modelled as start … start d stop: predicted are its tokens and the stop, as a
neural decoder predicts them, so losses compare token for token. Order 1 is the unigram model.

An n-gram is one int64, its tokens read as the digits of a number in base `vocabulary`: the last
digit is the predicted token, the others are its context, and cutting the first digit gives the
n-gram of the next lower order. Counting is then sorting, and looking up is binary search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError

Ids: TypeAlias = NDArray[Any]
Keys: TypeAlias = NDArray[np.int64]
OnProgress: TypeAlias = Callable[[int, int | None], None]

TOKENS_AT_ONCE = 500_000
MAX_KEY = 2**63 - 1


@dataclass(frozen=True)
class NgramLevel:
    """All that one order knows: n-grams with counts, contexts with what followed them."""

    grams: Keys
    counts: NDArray[np.int32]
    contexts: Keys
    totals: NDArray[np.int64]
    followers: NDArray[np.int32]
    discount: float

    @classmethod
    def of(cls, grams: Keys, counts: NDArray[np.int32], *, vocabulary: int) -> NgramLevel:
        """From n-grams in ascending order; their contexts are then in ascending order too."""
        context_of_each = grams // vocabulary
        contexts, followers = _runs(context_of_each)
        totals = np.add.reduceat(counts, _beginnings(context_of_each), dtype=np.int64)
        return cls(grams, counts, contexts, totals, followers, _discount(counts))

    def interpolate(
        self, keys: Keys, lower: NDArray[np.float64], *, vocabulary: int
    ) -> NDArray[np.float64]:
        """p_k for each key, given p_{k−1} for the same tokens."""
        place, context_seen = _find(keys // vocabulary, self.contexts)
        gram, gram_seen = _find(keys, self.grams)
        total = self.totals[place]
        kept = np.where(gram_seen, np.maximum(self.counts[gram] - self.discount, 0), 0)
        left = self.discount * self.followers[place]
        return np.where(context_seen, (kept + left * lower) / total, lower)


@dataclass(frozen=True)
class KneserNey:
    """A fitted n-gram model; `levels` run from order 1 upwards."""

    levels: tuple[NgramLevel, ...]
    vocabulary: int
    start: int
    stop: int
    trained_tokens: int
    "Tokens it was counted on, stops included."
    cut_short: bool
    "Whether the token limit left training text unread."

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
        """Count documents of token ids (without specials) up to `token_limit` predicted tokens.

        Memory is bounded by the limit, not by the corpus: at its peak about 20 bytes a token of
        ordinary text, 60 if no n-gram ever came twice."""
        check_keys_fit(order, vocabulary)
        for name, special in (("start", start), ("stop", stop)):
            if not 0 <= special < vocabulary:
                raise _error(f"{name} = {special} is outside the vocabulary of {vocabulary:,}")
        if token_limit < 1:
            raise _error(f"a token limit of {token_limit} leaves nothing to count")
        chunks: list[Keys] = []
        seen = 0
        cut_short = False
        for keys, _ in _chunks(documents, order, vocabulary=vocabulary, start=start, stop=stop):
            if seen == token_limit:
                cut_short = True
                break
            chunks.append(keys[: token_limit - seen])
            cut_short = len(keys) > token_limit - seen
            seen += len(chunks[-1])
            if on_progress is not None:
                on_progress(seen, None)
        if not seen:
            raise _error(
                "there is no training text to count n-grams in", hint="Give at least one document."
            )
        levels = _levels(chunks, order, vocabulary=vocabulary)
        return cls(levels, vocabulary, start, stop, trained_tokens=seen, cut_short=cut_short)

    def unigram(self) -> KneserNey:
        """The order-1 model of the same text: its counts are sums of those at the highest order."""
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

        `is_scored` says for each document which of its tokens (the stop the last) count."""
        nats, owners = [np.empty(0)], [np.empty(0, dtype=np.int64)]
        flat = None if is_scored is None else np.concatenate(is_scored)
        done = 0
        chunks = _chunks(
            documents, self.order, vocabulary=self.vocabulary, start=self.start, stop=self.stop
        )
        for keys, owner in chunks:
            first = _beginnings(owner)
            each = -np.log(self._p(keys))
            if flat is not None:
                each *= flat[done : done + len(keys)]
            done += len(keys)
            nats.append(np.add.reduceat(each, first))
            owners.append(owner[first])
        # A document longer than a chunk comes in several sums.
        sums = np.bincount(np.concatenate(owners), weights=np.concatenate(nats))
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
    """Levels 1 … order from the keys of all occurrences. Empties `chunks` and sorts in place,
    which is what keeps the peak of memory low."""
    keys = _joined(chunks)
    levels = []
    for length in range(order, 0, -1):
        keys.sort()
        keys, counts = _runs(keys)
        levels.append(NgramLevel.of(keys, counts, vocabulary=vocabulary))
        # Each n-gram type is one context more for the n-gram that lacks its first token.
        keys = keys % vocabulary ** (length - 1)
    return tuple(reversed(levels))


def _joined(chunks: list[Keys]) -> Keys:
    """All chunks end to end, each given up once copied: memory for one copy, not two."""
    joined = np.empty(sum(len(chunk) for chunk in chunks), dtype=np.int64)
    end = len(joined)
    while chunks:
        chunk = chunks.pop()
        joined[end - len(chunk) : end] = chunk
        end -= len(chunk)
    return joined


def _chunks(
    documents: Iterable[Ids], order: int, *, vocabulary: int, start: int, stop: int
) -> Iterator[tuple[Keys, NDArray[np.int64]]]:
    """Highest-order keys of the predicted tokens, about `TOKENS_AT_ONCE` a time, and the number
    of the document that each belongs to."""
    pieces: list[NDArray[np.int64]] = []
    owners: list[int] = []
    tokens = 0
    for number, document in enumerate(documents):
        ids = _checked(document, number=number, vocabulary=vocabulary)
        for piece in _pieces(ids, order, start=start, stop=stop):
            pieces.append(piece)
            owners.append(number)
            tokens += len(piece) - (order - 1)
            if tokens >= TOKENS_AT_ONCE:
                yield _keys(pieces, owners, order=order, vocabulary=vocabulary)
                pieces, owners, tokens = [], [], 0
    if pieces:
        yield _keys(pieces, owners, order=order, vocabulary=vocabulary)


def _pieces(ids: Ids, order: int, *, start: int, stop: int) -> Iterator[NDArray[np.int64]]:
    """start … start ids stop, in pieces of bounded length that each begin with the order − 1
    tokens before them: a corpus may be one long document."""
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
    pieces: list[NDArray[np.int64]], owners: list[int], *, order: int, vocabulary: int
) -> tuple[Keys, NDArray[np.int64]]:
    lengths = np.array([len(piece) for piece in pieces]) - (order - 1)
    stream = np.concatenate(pieces)
    # In front of a token of piece m stand the contexts of m + 1 pieces, which are not predicted.
    place = np.arange(lengths.sum()) + np.repeat(
        (order - 1) * np.arange(1, len(pieces) + 1), lengths
    )
    keys = np.zeros(len(place), dtype=np.int64)
    for back in range(order - 1, -1, -1):
        keys = keys * vocabulary + stream[place - back]
    return keys, np.repeat(np.array(owners, dtype=np.int64), lengths)


def _runs(ascending: Keys) -> tuple[Keys, NDArray[np.int32]]:
    """Different values of a sorted array, and how often each stands there."""
    first = _beginnings(ascending)
    counts = np.empty(len(first), dtype=np.int32)
    np.subtract(first[1:], first[:-1], out=counts[:-1], casting="unsafe")
    counts[-1] = len(ascending) - first[-1]
    return ascending[first], counts


def _beginnings(ascending: Keys) -> NDArray[np.intp]:
    """Where in a sorted array each different value begins."""
    changes = np.ones(len(ascending), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def _find(wanted: Keys, table: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """A place in the sorted table for each key, and whether the key stands there."""
    place = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
    return place, table[place] == wanted


def _discount(counts: NDArray[np.int32]) -> float:
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    # With none counted once or none counted twice the estimate is 0 or 1, which would give unseen
    # tokens nothing or singletons nothing: it happens in toy corpora, and a half is the middle.
    return once / (once + 2 * twice) if once and twice else 0.5


def _checked(document: Ids, *, number: int, vocabulary: int) -> Ids:
    ids = np.asarray(document)
    if len(ids) and (
        ids.dtype.kind not in "iu" or not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary
    ):
        raise _error(
            f"document {number + 1:,} holds an id outside the vocabulary of {vocabulary:,}",
            hint="Encode the text with the tokenizer whose size you pass.",
        )
    return ids


def check_keys_fit(order: int, vocabulary: int) -> None:
    """Refuse, before any counting, an order whose n-grams are too many to be numbered."""
    if order < 1 or vocabulary < 1:
        raise _error(
            f"an n-gram model of order {order} over {vocabulary} tokens cannot be",
            hint="Both must be at least 1.",
        )
    if vocabulary**order > MAX_KEY:
        most = next(k for k in range(order, 0, -1) if vocabulary**k <= MAX_KEY)
        raise _error(
            f"{order}-grams over {vocabulary:,} tokens do not fit the 64-bit keys they are "
            "counted by",
            hint=f"Give an order of at most {most}.",
        )


def _error(what: str, *, hint: str = "") -> UserError:
    return UserError(what, topic="baseline", hint=hint)
