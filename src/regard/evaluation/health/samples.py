"""Sample health: has generated text collapsed, compared with real text of the same length?

    p = P(a random choice of one candidate per sample is at least as bad as the samples)

The candidates of a sample are the sample itself and real texts of its length. If samples were like
real text, any candidate could have been the sample; a statistic is flagged where at most 1 % of
random choices are as bad (a permutation test; Fisher, 1935). No threshold defines how repetitive
text may be: the real text does.

Word order is tested separately: samples have none if their 2-grams occur in real text no more often
than those of the same tokens in the best of 99 random orders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np

from regard.evaluation.formatting import quantity
from regard.evaluation.health.repetition import (
    PAD,
    Ids,
    Ints,
    MatchedTexts,
    Repetition,
    match_texts,
)

MIN_SAMPLES = 10
MIN_TOKENS = 100
"Minimum compared tokens: fractions of n-grams of fewer say nothing."
PERMUTATIONS = 999
"Random choices behind each p."
REFERENCE_DRAWS = 50
"Choices of real text alone, whose mean is reported."
SHUFFLES = 99
"Random orders of the samples' tokens."
MAX_P = 0.01
"A statistic is flagged at this p or below."


@dataclass(frozen=True)
class BigramCounts:
    """Fractions of 2-grams that occur in (other) real texts too."""

    samples: float
    reference: float
    shuffled: float
    "Mean over random orders of the samples' tokens."
    shuffled_max: float
    "Maximum over random orders of the samples' tokens."


@dataclass(frozen=True)
class SampleHealth:
    """Statistics of samples and of real text, and what is wrong with the samples."""

    n: int
    tokens: int
    "Compared tokens of the samples, each truncated to the length of its real texts."
    documents: int
    "Real texts given."
    empty_rate: float
    reference_empty_rate: float
    samples: Repetition | None
    "None where there is too little to compare."
    reference: Repetition | None
    known_bigrams: BigramCounts | None
    flags: tuple[str, ...]
    unjudged: str = ""
    "Why repetition was not tested; empty where it was."

    @property
    def sentence(self) -> str:
        """The statistics in words, without the flags."""
        if self.samples is None or self.reference is None:
            return self.unjudged
        ours, real = self.samples, self.reference
        return (
            f"3-grams that repeat an earlier one: {_percent(ours.repetition)} "
            f"({_percent(real.repetition)} in real text of the same length); distinct 2-grams: "
            f"{_percent(ours.distinct_2)} ({_percent(real.distinct_2)}); <unk>: "
            f"{_percent(ours.unknown_rate)} ({_percent(real.unknown_rate)}); "
            f"n = {self.n:,} samples, {self.tokens:,} tokens, {self.documents:,} real texts"
        )


def sample_health(
    samples: Sequence[Ids], reference: Sequence[Ids], *, unknown: int | None, seed: int = 0
) -> SampleHealth:
    """Compare samples with real texts, both as ids, truncated to the generation limit."""
    n, documents = len(samples), len(reference)
    flags = _flag_empty(samples, reference)
    ours: Repetition | None = None
    real: Repetition | None = None
    bigrams: BigramCounts | None = None
    tokens = 0
    if n < MIN_SAMPLES or documents < n:
        unjudged = (
            f"{quantity(n, 'samples')} and {quantity(documents, 'real texts')}: too few to compare"
        )
    else:
        generator = np.random.default_rng(seed)
        texts = match_texts(samples, reference, unknown=unknown, generator=generator)
        tokens, unjudged = texts.tokens, _too_short(texts)
        if not unjudged:
            draws = [texts.repetition(choice) for choice in _real_choices(texts, generator)]
            bigrams = _known_bigrams(texts, reference, generator)
            ours, real = texts.repetition(texts.sample_choice), _mean(draws)
            flags += _flag_repetition(texts, draws, generator) + _flag_random_order(bigrams)
    return SampleHealth(
        n=n,
        tokens=tokens,
        documents=documents,
        empty_rate=_count_empty(samples) / max(n, 1),
        reference_empty_rate=_count_empty(reference) / max(documents, 1),
        samples=ours,
        reference=real,
        known_bigrams=bigrams,
        flags=flags,
        unjudged=unjudged,
    )


def _too_short(texts: MatchedTexts) -> str:
    if texts.tokens >= MIN_TOKENS:
        return ""
    return (
        f"{len(texts.rows):,} samples have {texts.tokens:,} tokens to compare with real text of "
        f"the same length: too few to judge by, it takes {MIN_TOKENS:,}"
    )


def _flag_repetition(
    texts: MatchedTexts, draws: Sequence[Repetition], generator: np.random.Generator
) -> tuple[str, ...]:
    """A sentence for each statistic in which hardly any choice is as bad as the samples."""
    ours, real = texts.repetition(texts.sample_choice), _mean(draws)
    samples = np.arange(len(texts.rows))
    choices = generator.integers(texts.rows.shape[1], size=(PERMUTATIONS, len(samples)))
    condition = f"in real text of the same length (n = {len(samples):,} samples)"
    flags = []
    repeated = texts.repeated_counts
    if _is_significant(repeated[samples, choices].sum(axis=1), repeated[:, 0].sum()):
        run = f"; one token up to {ours.longest_run:.0f} times in a row"
        flags.append(
            f"samples repeat themselves: {_percent(ours.repetition)} of their 3-grams are repeats, "
            f"{_percent(real.repetition)} {condition}{run if ours.longest_run > 2 else ''}"
        )
    # A mixture of two kinds of text is less alike than either, so the permutation test alone is
    # not enough.
    if ours.alike > max(draw.alike for draw in draws) and _is_significant(
        np.array([texts.alike(choice) for choice in choices]), ours.alike
    ):
        flags.append(
            f"samples resemble each other: {_percent(ours.alike)} of their 2-grams occur in "
            f"another sample already, {_percent(real.alike)} {condition}"
        )
    unknown = texts.unknown_counts
    if _is_significant(unknown[samples, choices].sum(axis=1), unknown[:, 0].sum()):
        flags.append(
            f"samples contain <unk> too often: {_percent(ours.unknown_rate)} of their tokens, "
            f"{_percent(real.unknown_rate)} {condition}"
        )
    return tuple(flags)


def _is_significant(permuted: np.ndarray[Any, Any], observed: float) -> bool:
    # The samples are one of the permutations: p is at least 1 / (1 + PERMUTATIONS).
    return bool((1 + (permuted >= observed).sum()) / (1 + len(permuted)) <= MAX_P)


def _flag_random_order(bigrams: BigramCounts) -> tuple[str, ...]:
    if bigrams.samples > bigrams.shuffled_max or bigrams.reference <= bigrams.shuffled_max:
        return ()
    return (
        f"samples are words without order: {_percent(bigrams.samples)} of their 2-grams occur in "
        f"real text, up to {_percent(bigrams.shuffled_max)} of the same tokens' in random order, "
        f"{_percent(bigrams.reference)} of real text's own",
    )


def _flag_empty(samples: Sequence[Ids], reference: Sequence[Ids]) -> tuple[str, ...]:
    """A sentence where real texts would hardly give so many empty samples."""
    empty, empty_real = _count_empty(samples), _count_empty(reference)
    n, documents = len(samples), len(reference)
    if not empty or empty_p_value(empty, n, of=empty + empty_real, texts=n + documents) > MAX_P:
        return ()
    return (
        f"{empty:,} of {n:,} samples are empty, of {documents:,} real texts {empty_real or 'none'}",
    )


def empty_p_value(empty: int, n: int, *, of: int, texts: int) -> float:
    """P(at least `empty` of n texts drawn are empty) where `of` of all `texts` are.

    The hypergeometric tail, exact in integers; importing scipy.stats would cost every training run
    a second and a half."""
    ways = sum(comb(of, k) * comb(texts - of, n - k) for k in range(empty, min(n, of) + 1))
    return ways / comb(texts, n)


def _count_empty(texts: Sequence[Ids]) -> int:
    return sum(not len(text) for text in texts)


def _real_choices(texts: MatchedTexts, generator: np.random.Generator) -> Ints:
    return generator.integers(1, texts.rows.shape[1], size=(REFERENCE_DRAWS, len(texts.rows)))


def _mean(draws: Sequence[Repetition]) -> Repetition:
    names = asdict(draws[0])
    return Repetition(
        **{name: float(np.mean([getattr(draw, name) for draw in draws])) for name in names}
    )


def _known_bigrams(
    texts: MatchedTexts, reference: Sequence[Ids], generator: np.random.Generator
) -> BigramCounts:
    document_frequency = Counter(
        bigram for text in reference for bigram in set(pairwise(map(int, text)))
    )

    known = set(document_frequency)
    # A real text contains its own 2-grams: they have to occur in another one.
    known_elsewhere = {bigram for bigram, count in document_frequency.items() if count > 1}

    def fraction(rows: Sequence[Ids], of: Set[tuple[int, int]]) -> float:
        """Fraction of the rows' 2-grams that are among these."""
        found = [bigram in of for ids in rows for bigram in pairwise(ids)]
        return sum(found) / max(len(found), 1)

    samples = [row[row != PAD].tolist() for row in texts.rows[:, 0]]
    real = [row[row != PAD].tolist() for group in texts.rows[:, 1:] for row in group]
    ends = np.cumsum([len(ids) for ids in samples])[:-1]
    tokens = np.concatenate([np.array(ids, dtype=np.int64) for ids in samples])
    orders = (generator.permutation(tokens) for _ in range(SHUFFLES))
    shuffled = [
        fraction([ids.tolist() for ids in np.split(order, ends)], known) for order in orders
    ]
    return BigramCounts(
        samples=fraction(samples, known),
        reference=fraction(real, known_elsewhere),
        shuffled=float(np.mean(shuffled)),
        shuffled_max=max(shuffled),
    )


def _percent(fraction: float) -> str:
    decimals = 0 if fraction >= 0.0995 or fraction == 0 else 1
    return f"{100 * fraction:.{decimals}f} %"
