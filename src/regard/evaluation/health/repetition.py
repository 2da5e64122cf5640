"""Repetition within and between texts: distinct-n, repeated 3-grams, shared 2-grams.

    distinct_n = distinct n-grams / n-grams, over all texts together                Li et al., 2016
    repetition = fraction of 3-grams that occur earlier in the same text
    alike      = 1 − |distinct 2-grams of all texts| / Σ |distinct 2-grams of each text|

`MatchedTexts` holds samples and, for each, real texts truncated to the same length. A choice takes
one of these candidates per sample, so all choices have equally many tokens and are comparable.

Shapes: n samples, r candidates per sample (the sample itself first), t tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ids = Sequence[int]
Ints = NDArray[np.int64]

PAD = -1
"Fills rows behind their last token or n-gram."
MAX_REFERENCES = 5
"Maximum real texts matched with each sample."


@dataclass(frozen=True)
class Repetition:
    """Statistics of texts; comparable between sets of equally long texts."""

    distinct_1: float
    distinct_2: float
    distinct_3: float
    repetition: float
    "Fraction of 3-grams that repeat one earlier in the same text."
    longest_run: float
    "Maximum length of a run of one token."
    alike: float
    "Fraction of each text's distinct 2-grams that another text has already."
    unknown_rate: float


@dataclass(frozen=True)
class MatchedTexts:
    """Samples with equally long real texts: candidates of one sample all have one length."""

    rows: Ints
    "(n, r, t) ids; candidate 0 is the sample."
    lengths: Ints
    "(n,) tokens of each candidate of a sample."
    unknown: int | None

    @property
    def tokens(self) -> int:
        return int(self.lengths.sum())

    @property
    def sample_choice(self) -> Ints:
        """The choice of the samples themselves."""
        return np.zeros(len(self.rows), dtype=np.int64)

    @cached_property
    def ngram_ids(self) -> dict[int, Ints]:
        """By order, (n, r, n-grams): an id of each n-gram, equal for equal n-grams."""
        return {order: self._ngram_ids(order) for order in (1, 2, 3)}

    @cached_property
    def distinct_counts(self) -> dict[int, Ints]:
        """By order, (n, r): distinct n-grams of each candidate."""
        return {order: _distinct_counts(ids) for order, ids in self.ngram_ids.items()}

    @cached_property
    def repeated_counts(self) -> Ints:
        """(n, r): 3-grams that occur earlier in the same candidate."""
        return self._counts(3)[:, None] - self.distinct_counts[3]

    @cached_property
    def unknown_counts(self) -> Ints:
        """(n, r): unknown tokens of each candidate."""
        if self.unknown is None:
            return np.zeros(self.rows.shape[:2], dtype=np.int64)
        return np.asarray((self.rows == self.unknown).sum(axis=2))

    @cached_property
    def longest_runs(self) -> Ints:
        """(n, r): length of the longest run of one token."""
        longest = [[_longest_run(row[row != PAD]) for row in group] for group in self.rows]
        return np.array(longest, dtype=np.int64).reshape(self.rows.shape[:2])

    def alike(self, choice: Ints) -> float:
        """Fraction of distinct 2-grams that chosen texts share with each other."""
        total = int(self.distinct_counts[2][np.arange(len(choice)), choice].sum())
        return 1 - self._distinct_overall(2, choice) / total if total else 0.0

    def repetition(self, choice: Ints) -> Repetition:
        """Statistics of one candidate per sample."""
        samples = np.arange(len(choice))
        repeated = self.repeated_counts[samples, choice].sum()
        return Repetition(
            distinct_1=self._distinct(1, choice),
            distinct_2=self._distinct(2, choice),
            distinct_3=self._distinct(3, choice),
            repetition=float(repeated / max(self._counts(3).sum(), 1)),
            longest_run=float(self.longest_runs[samples, choice].max(initial=0)),
            alike=self.alike(choice),
            unknown_rate=float(self.unknown_counts[samples, choice].sum() / max(self.tokens, 1)),
        )

    def _distinct(self, order: int, choice: Ints) -> float:
        return self._distinct_overall(order, choice) / max(int(self._counts(order).sum()), 1)

    def _counts(self, order: int) -> Ints:
        """(n,): n-grams in each candidate of a sample."""
        return np.maximum(self.lengths - order + 1, 0)

    def _ngram_ids(self, order: int) -> Ints:
        length = max(self.rows.shape[2] - order + 1, 0)
        ids = np.zeros((*self.rows.shape[:2], length), dtype=np.int64)
        for step in range(order):
            tokens = self.rows[:, :, step : step + length]
            keys = ids * (int(self.rows.max(initial=0)) + 2) + tokens + 1
            # Renumbered before the next token is appended, so that no key overflows.
            ids = np.unique(keys, return_inverse=True)[1].reshape(keys.shape)
        is_padding = np.arange(length) >= self._counts(order)[:, None]
        ids[np.broadcast_to(is_padding[:, None], ids.shape)] = PAD
        return ids

    def _distinct_overall(self, order: int, choice: Ints) -> int:
        """Distinct n-grams of the chosen texts together."""
        occurs = np.zeros(int(self.ngram_ids[order].max(initial=PAD)) + 2, dtype=bool)
        occurs[self.ngram_ids[order][np.arange(len(choice)), choice]] = True
        return int(occurs[:PAD].sum())  # the last entry is that of PAD


def match_texts(
    texts: Sequence[Ids],
    reference: Sequence[Ids],
    *,
    unknown: int | None,
    generator: np.random.Generator,
) -> MatchedTexts:
    """Match each text with random real texts of at least its length; truncate all to the shortest.

    Needs at least as many real texts as texts. Each real text is used once, long texts first."""
    references = min(MAX_REFERENCES, len(reference) // len(texts))
    order = generator.permutation(len(reference))
    sizes = np.array([len(reference[i]) for i in order])
    free = np.ones(len(order), dtype=bool)
    groups: list[list[Ids]] = []
    for text in sorted(texts, key=len, reverse=True):
        fit = np.flatnonzero(free & (sizes >= len(text)))[:references]
        if len(fit) < references:  # too few are long enough: take the longest
            fit = np.argsort(np.where(free, -sizes, 1), kind="stable")[:references]
        free[fit] = False
        groups.append([text, *(reference[order[i]] for i in fit)])
    lengths = np.array([min(len(ids) for ids in group) for group in groups], dtype=np.int64)
    shape = (len(groups), references + 1, int(lengths.max(initial=0)))
    rows = np.full(shape, PAD, dtype=np.int64)
    for sample, (group, length) in enumerate(zip(groups, lengths.tolist(), strict=True)):
        for candidate, ids in enumerate(group):
            rows[sample, candidate, :length] = ids[:length]
    return MatchedTexts(rows, lengths, unknown)


def _distinct_counts(ids: Ints) -> Ints:
    ordered = np.sort(ids, axis=2)
    is_first = np.ones_like(ordered, dtype=bool)
    is_first[:, :, 1:] = ordered[:, :, 1:] != ordered[:, :, :-1]
    return np.asarray((is_first & (ordered != PAD)).sum(axis=2))


def _longest_run(ids: Ints) -> int:
    if not len(ids):
        return 0
    changes = np.flatnonzero(np.diff(ids)) + 1
    return int(np.diff(np.concatenate(([0], changes, [len(ids)]))).max())
