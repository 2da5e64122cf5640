"""The words of a row, found from its tokens alone.

A word begins where a space stands before a token, and where punctuation meets letters; it ends
before the next one or before a special token. Hyphens and apostrophes inside belong to it:

    " Jean" "-" "Paul" "," " born"   →   Jean-Paul | , | born
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from regard.batch import Ints
from regard.objectives.vocabulary import Vocabulary

ROWS_REMEMBERED = 4096
"A small corpus is read hundreds of times over: its words need not be found each time."


class Span(NamedTuple):
    """Neighbouring things of a row, the end not included."""

    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, eq=False)
class WordSpans:
    """Where the words of a row stand, in tokens, and what they say."""

    ids: Ints
    begins: Ints
    ends: Ints
    "The first token that is no longer the word's."
    vocabulary: Vocabulary

    def __len__(self) -> int:
        return len(self.begins)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        pieces, ids = self.vocabulary.texts, self.ids.tolist()
        edges = zip(self.begins.tolist(), self.ends.tolist(), strict=True)
        return tuple("".join(pieces[i] for i in ids[begin:end]).strip() for begin, end in edges)

    @cached_property
    def follows(self) -> tuple[bool, ...]:
        """Whether a word stands right behind the one before it: no special between them."""
        return (False, *(self.begins[1:] == self.ends[:-1]).tolist())[: len(self)]

    def tokens(self, words: Span) -> Span:
        """The tokens of neighbouring words."""
        return Span(int(self.begins[words.begin]), int(self.ends[words.end - 1]))

    def spans(self) -> list[Span]:
        """The tokens of each word."""
        edges = zip(self.begins.tolist(), self.ends.tolist(), strict=True)
        return [Span(begin, end) for begin, end in edges]


def words_of(ids: Ints, vocabulary: Vocabulary) -> WordSpans:
    return _found(np.asarray(ids, dtype=np.int64).tobytes(), vocabulary)


@lru_cache(maxsize=ROWS_REMEMBERED)
def _found(row: bytes, vocabulary: Vocabulary) -> WordSpans:
    ids = np.frombuffer(row, dtype=np.int64)
    special = vocabulary.is_special[ids]
    inside = np.zeros(len(ids), dtype=np.bool_)
    before, here = ids[:-1], ids[1:]
    inside[1:] = ~vocabulary.begins_word[here] & (
        vocabulary.is_blank[before] | (vocabulary.goes_on[here] & vocabulary.stays_open[before])
    )
    inside[1:] &= ~special[:-1]
    edges = np.flatnonzero(special | ~inside)
    ends = np.append(edges[1:], len(ids))
    text = ~special[edges]
    return WordSpans(ids, edges[text], ends[text], vocabulary)


def chosen_within(groups: Sequence[Span], *, budget: int) -> list[Span]:
    """Of groups of tokens in order of preference, those that fit into the budget together.

    None is cut, and no two share a token; where not even one fits, the first is chosen."""
    taken: set[int] = set()
    chosen: list[Span] = []
    for group in groups:
        if len(taken) + group.size <= budget and taken.isdisjoint(range(*group)):
            taken.update(range(*group))
            chosen.append(group)
        if len(taken) == budget:
            break
    return chosen or list(groups[:1])


def places_of(spans: Sequence[Span]) -> Ints:
    """The places that spans cover, in order."""
    return np.array([i for span in sorted(spans) for i in range(*span)], dtype=np.int64)
