"""Sample health: has what a model writes collapsed? Real text of the same length is the measure.

    p = P(a pick of one row from each place is at least as bad as the samples)

Each sample stands in one place with real texts of its length. Were it like them, any row of the
place could have been the sample; a measure is flagged where at most 1 % of random picks are as bad
(a permutation test; Fisher, 1935). No threshold says how repetitive text may be: real text does.

Besides, tokens that follow each other are looked up in the real text: samples whose pairs are found
there no more often than those of the same tokens in some of 99 random orders have no order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np

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
"Compared tokens below which shares of n-grams say nothing."
PERMUTATIONS = 999
"Random picks behind each p."
REFERENCE_DRAWS = 50
"Picks of real text alone, whose mean texture is shown."
SHUFFLES = 99
"Random orders of the samples' tokens."
MAX_P = 0.01
"A measure is flagged at this p, or below it."


@dataclass(frozen=True)
class BigramCounts:
    """Shares of neighbouring tokens that stand side by side in (other) real texts too."""

    samples: float
    reference: float
    shuffled: float
    "Those of the samples' own tokens in random order, in the mean."
    shuffled_most: float
    "The most that a random order had."


@dataclass(frozen=True)
class SampleHealth:
    """What samples are like beside real text, and what is wrong with them."""

    n: int
    tokens: int
    "Tokens of the samples that were compared: each is cut to its real texts."
    documents: int
    "Real texts compared with."
    empty_share: float
    reference_empty_share: float
    samples: Repetition | None
    "None where there is too little to compare."
    reference: Repetition | None
    known_pairs: BigramCounts | None
    flags: tuple[str, ...]
    unjudged: str = ""
    "Why nothing is said of their texture."

    @property
    def sentence(self) -> str:
        """All of it in words; flags speak for themselves."""
        if self.samples is None or self.reference is None:
            return self.unjudged
        ours, theirs = self.samples, self.reference
        return (
            f"3-grams that repeat an earlier one: {_percent(ours.repetition)} "
            f"({_percent(theirs.repetition)} in real text of the same length); distinct 2-grams: "
            f"{_percent(ours.distinct_2)} ({_percent(theirs.distinct_2)}); <unk>: "
            f"{_percent(ours.unknown_share)} ({_percent(theirs.unknown_share)}); "
            f"n = {self.n:,} samples, {self.tokens:,} tokens, {self.documents:,} real texts"
        )

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "flags": list(self.flags), "sentence": self.sentence}


def sample_health(
    samples: Sequence[Ids], reference: Sequence[Ids], *, unknown: int | None, seed: int = 0
) -> SampleHealth:
    """Hold samples against real texts, both as ids, cut to what could be written at most."""
    n, documents = len(samples), len(reference)
    flags = _too_many_empty(samples, reference)
    textures: tuple[Repetition | None, Repetition | None, BigramCounts | None] = (None, None, None)
    tokens = 0
    if n < MIN_SAMPLES or documents < n:
        unjudged = f"{n:,} samples and {documents:,} real texts are too few to compare"
    else:
        generator = np.random.default_rng(seed)
        texts = match_texts(samples, reference, unknown=unknown, generator=generator)
        tokens, unjudged = texts.tokens, _too_short(texts)
        if not unjudged:
            real = [texts.texture(pick) for pick in _real_picks(texts, generator)]
            pairs = _known_pairs(texts, reference, generator)
            textures = (texts.texture(texts.judged), _mean(real), pairs)
            flags += _worse_than_real(texts, real, generator) + _without_order(pairs)
    ours, theirs, pairs_known = textures
    return SampleHealth(
        n=n,
        tokens=tokens,
        documents=documents,
        empty_share=_empty(samples) / max(n, 1),
        reference_empty_share=_empty(reference) / max(documents, 1),
        samples=ours,
        reference=theirs,
        known_pairs=pairs_known,
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


def _worse_than_real(
    texts: MatchedTexts, drawn: Sequence[Repetition], generator: np.random.Generator
) -> tuple[str, ...]:
    """A sentence for each measure in which hardly any pick is as bad as the samples."""
    ours, real = texts.texture(texts.judged), _mean(drawn)
    places = np.arange(len(texts.rows))
    picks = generator.integers(texts.rows.shape[1], size=(PERMUTATIONS, len(places)))
    beside = f"in real text of the same length (n = {len(places):,} samples)"
    flags = []
    if _is_rare(texts.repeated[places, picks].sum(axis=1), texts.repeated[:, 0].sum()):
        run = f"; one token up to {ours.longest_run:.0f} times in a row"
        flags.append(
            f"samples repeat themselves: {_percent(ours.repetition)} of their 3-grams are repeats, "
            f"{_percent(real.repetition)} {beside}{run if ours.longest_run > 2 else ''}"
        )
    # Two sorts of text mixed are less alike than each alone, so mixed picks do not decide alone.
    if ours.alike > max(one.alike for one in drawn) and _is_rare(
        np.array([texts.alike(pick) for pick in picks]), ours.alike
    ):
        flags.append(
            f"samples resemble each other: {_percent(ours.alike)} of their 2-grams stand in "
            f"another sample already, {_percent(real.alike)} {beside}"
        )
    if _is_rare(texts.unknowns[places, picks].sum(axis=1), texts.unknowns[:, 0].sum()):
        flags.append(
            f"samples say <unk> too often: {_percent(ours.unknown_share)} of their tokens, "
            f"{_percent(real.unknown_share)} {beside}"
        )
    return tuple(flags)


def _is_rare(drawn: np.ndarray[Any, Any], ours: float) -> bool:
    # The samples are a pick themselves; with them in the count, p is never below what it can be.
    return bool((1 + (drawn >= ours).sum()) / (1 + len(drawn)) <= MAX_P)


def _without_order(pairs: BigramCounts) -> tuple[str, ...]:
    if pairs.samples > pairs.shuffled_most or pairs.reference <= pairs.shuffled_most:
        return ()
    return (
        f"samples are words without order: {_percent(pairs.samples)} of their 2-grams occur in "
        f"real text, up to {_percent(pairs.shuffled_most)} of the same tokens' in random order, "
        f"{_percent(pairs.reference)} of real text's own",
    )


def _too_many_empty(samples: Sequence[Ids], reference: Sequence[Ids]) -> tuple[str, ...]:
    """A sentence where so many empty ones would hardly be drawn from real texts."""
    empty, empty_real = _empty(samples), _empty(reference)
    n, documents = len(samples), len(reference)
    if not empty or chance_of_empty(empty, n, of=empty + empty_real, texts=n + documents) > MAX_P:
        return ()
    return (
        f"{empty:,} of {n:,} samples are empty, of {documents:,} real texts {empty_real or 'none'}",
    )


def chance_of_empty(empty: int, n: int, *, of: int, texts: int) -> float:
    """P(at least `empty` of n drawn texts are empty) where `of` of all `texts` are.

    Exact, in whole numbers; scipy.stats would cost every training a second and a half of import."""
    ways = sum(comb(of, k) * comb(texts - of, n - k) for k in range(empty, min(n, of) + 1))
    return ways / comb(texts, n)


def _empty(texts: Sequence[Ids]) -> int:
    return sum(not len(text) for text in texts)


def _real_picks(texts: MatchedTexts, generator: np.random.Generator) -> Ints:
    return generator.integers(1, texts.rows.shape[1], size=(REFERENCE_DRAWS, len(texts.rows)))


def _mean(textures: Sequence[Repetition]) -> Repetition:
    names = asdict(textures[0])
    return Repetition(
        **{name: float(np.mean([getattr(t, name) for t in textures])) for name in names}
    )


def _known_pairs(
    texts: MatchedTexts, reference: Sequence[Ids], generator: np.random.Generator
) -> BigramCounts:
    in_texts = Counter(pair for text in reference for pair in set(pairwise(map(int, text))))

    def share(rows: Sequence[Ids], *, besides: int) -> float:
        """Of neighbours that stand in more real texts than `besides`."""
        found = [in_texts[pair] > besides for ids in rows for pair in pairwise(ids)]
        return sum(found) / max(len(found), 1)

    ours = [row[row != PAD].tolist() for row in texts.rows[:, 0]]
    real = [row[row != PAD].tolist() for place in texts.rows[:, 1:] for row in place]
    ends = np.cumsum([len(ids) for ids in ours])[:-1]
    tokens = np.concatenate([np.array(ids, dtype=np.int64) for ids in ours])
    orders = (generator.permutation(tokens) for _ in range(SHUFFLES))
    shuffled = [
        share([split.tolist() for split in np.split(order, ends)], besides=0) for order in orders
    ]
    return BigramCounts(
        samples=share(ours, besides=0),
        reference=share(real, besides=1),  # a real text's pairs stand in itself
        shuffled=float(np.mean(shuffled)),
        shuffled_most=max(shuffled),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"
