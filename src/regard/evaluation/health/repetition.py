"""The texture of a set of texts: how much of it is new, and how much comes again.

    distinct_n = different n-grams / n-grams, over all texts together               Li et al., 2016
    repetition = share of 3-grams that already stand earlier in the same text
    alike      = 1 − |different 2-grams of all texts| / Σ |different 2-grams of each text|

`MatchedTexts` holds the texts to judge and, beside each, real ones cut to the same length, so that a
pick of one row from each place always has the same number of tokens and textures can be compared.

Shapes: n texts, r rows at each place (the text itself first), t tokens.
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
"Where a row has no token any more."
MAX_REFERENCES = 5
"Real texts beside each text, where there are enough."


@dataclass(frozen=True)
class Repetition:
    """Of texts of the same length, so that shares can be compared."""

    distinct_1: float
    distinct_2: float
    distinct_3: float
    repetition: float
    "Share of 3-grams that repeat one earlier in the same text."
    longest_run: float
    "How often one token follows itself, at most."
    alike: float
    "Share of each text's different 2-grams that another text has already."
    unknown_share: float


@dataclass(frozen=True)
class MatchedTexts:
    """Texts, each with as many real ones beside it, all rows at one place equally long."""

    rows: Ints
    "(n, r, t) ids; row 0 of each place is the text that is judged."
    lengths: Ints
    "(n,) tokens in each row of a place."
    unknown: int | None

    @property
    def tokens(self) -> int:
        return int(self.lengths.sum())

    @property
    def judged(self) -> Ints:
        """The pick of the texts themselves."""
        return np.zeros(len(self.rows), dtype=np.int64)

    @cached_property
    def codes(self) -> dict[int, Ints]:
        """By order, (n, r, places): a number for each n-gram, the same for the same n-gram."""
        return {order: self._codes(order) for order in (1, 2, 3)}

    @cached_property
    def different(self) -> dict[int, Ints]:
        """By order, (n, r): how many different n-grams a row has."""
        return {order: _different(codes) for order, codes in self.codes.items()}

    @cached_property
    def repeated(self) -> Ints:
        """(n, r): 3-grams that stand earlier in the same row."""
        return self._counts(3)[:, None] - self.different[3]

    @cached_property
    def unknowns(self) -> Ints:
        """(n, r): tokens for what the tokenizer does not know."""
        if self.unknown is None:
            return np.zeros(self.rows.shape[:2], dtype=np.int64)
        return np.asarray((self.rows == self.unknown).sum(axis=2))

    @cached_property
    def runs(self) -> Ints:
        """(n, r): how often one token follows itself, at most."""
        longest = [[_longest_run(row[row != PAD]) for row in place] for place in self.rows]
        return np.array(longest, dtype=np.int64).reshape(self.rows.shape[:2])

    def alike(self, pick: Ints) -> float:
        places = np.arange(len(pick))
        each = int(self.different[2][places, pick].sum())
        return 1 - self._together(2, pick) / each if each else 0.0

    def texture(self, pick: Ints) -> Repetition:
        """Of one row from each place."""
        places = np.arange(len(pick))
        return Repetition(
            distinct_1=self._distinct(1, pick),
            distinct_2=self._distinct(2, pick),
            distinct_3=self._distinct(3, pick),
            repetition=float(self.repeated[places, pick].sum() / max(self._counts(3).sum(), 1)),
            longest_run=float(self.runs[places, pick].max(initial=0)),
            alike=self.alike(pick),
            unknown_share=float(self.unknowns[places, pick].sum() / max(self.tokens, 1)),
        )

    def _distinct(self, order: int, pick: Ints) -> float:
        return self._together(order, pick) / max(int(self._counts(order).sum()), 1)

    def _counts(self, order: int) -> Ints:
        """(n,): n-grams in each row of a place."""
        return np.maximum(self.lengths - order + 1, 0)

    def _codes(self, order: int) -> Ints:
        places = max(self.rows.shape[2] - order + 1, 0)
        codes = np.zeros((*self.rows.shape[:2], places), dtype=np.int64)
        for step in range(order):
            ahead = self.rows[:, :, step : step + places]
            joined = codes * (int(self.rows.max(initial=0)) + 2) + ahead + 1
            # Small again before the next token joins, so that no number overflows.
            codes = np.unique(joined, return_inverse=True)[1].reshape(joined.shape)
        beyond = np.arange(places) >= self._counts(order)[:, None]
        codes[np.broadcast_to(beyond[:, None], codes.shape)] = PAD
        return codes

    def _together(self, order: int, pick: Ints) -> int:
        """How many different n-grams the picked rows have together."""
        seen = np.zeros(int(self.codes[order].max(initial=PAD)) + 2, dtype=bool)
        seen[self.codes[order][np.arange(len(pick)), pick]] = True
        return int(seen[:PAD].sum())  # the last is where NOTHING was noted


def match_texts(
    texts: Sequence[Ids],
    reference: Sequence[Ids],
    *,
    unknown: int | None,
    generator: np.random.Generator,
) -> MatchedTexts:
    """Beside each text real ones drawn at random among those long enough; all cut to the shortest.

    There must be as many real texts as texts, at least. Long texts choose first."""
    rivals = min(MAX_REFERENCES, len(reference) // len(texts))
    order = generator.permutation(len(reference))
    sizes = np.array([len(reference[i]) for i in order])
    free = np.ones(len(order), dtype=bool)
    places: list[list[Ids]] = []
    for text in sorted(texts, key=len, reverse=True):
        fit = np.flatnonzero(free & (sizes >= len(text)))[:rivals]
        if len(fit) < rivals:  # the longest there are, then
            fit = np.argsort(np.where(free, -sizes, 1), kind="stable")[:rivals]
        free[fit] = False
        places.append([text, *(reference[order[i]] for i in fit)])
    lengths = np.array([min(len(row) for row in place) for place in places], dtype=np.int64)
    rows = np.full((len(places), rivals + 1, int(lengths.max(initial=0))), PAD, dtype=np.int64)
    for place, (row_texts, length) in enumerate(zip(places, lengths.tolist(), strict=True)):
        for row, ids in enumerate(row_texts):
            rows[place, row, :length] = ids[:length]
    return MatchedTexts(rows, lengths, unknown)


def _different(codes: Ints) -> Ints:
    ordered = np.sort(codes, axis=2)
    first = np.ones_like(ordered, dtype=bool)
    first[:, :, 1:] = ordered[:, :, 1:] != ordered[:, :, :-1]
    return np.asarray((first & (ordered != PAD)).sum(axis=2))


def _longest_run(ids: Ints) -> int:
    if not len(ids):
        return 0
    changes = np.flatnonzero(np.diff(ids)) + 1
    return int(np.diff(np.concatenate(([0], changes, [len(ids)]))).max())
