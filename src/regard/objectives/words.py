"""Word boundaries in a row of tokens, for whole-word masking.

A word begins where a space precedes a token, and where punctuation meets letters; it ends before
the next word or before a special token. Hyphens and apostrophes inside belong to it:

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

CACHED_ROWS = 4096
"Rows whose words are cached: training passes over a small corpus hundreds of times."


class Span(NamedTuple):
    """A range of tokens or words, the end excluded."""

    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, eq=False)
class WordSpans:
    """The words of a row: their token ranges and their texts."""

    ids: Ints
    begins: Ints
    "Index of each word's first token."
    ends: Ints
    "Index of the token after each word."
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
        """Whether a word directly follows the previous one, with no special token between."""
        return (False, *(self.begins[1:] == self.ends[:-1]).tolist())[: len(self)]

    def tokens(self, words: Span) -> Span:
        """A range of words as a range of tokens."""
        return Span(int(self.begins[words.begin]), int(self.ends[words.end - 1]))

    def spans(self) -> list[Span]:
        """The token range of each word."""
        edges = zip(self.begins.tolist(), self.ends.tolist(), strict=True)
        return [Span(begin, end) for begin, end in edges]


def find_words(ids: Ints, vocabulary: Vocabulary) -> WordSpans:
    return _find_words(np.asarray(ids, dtype=np.int64).tobytes(), vocabulary)


@lru_cache(maxsize=CACHED_ROWS)
def _find_words(row: bytes, vocabulary: Vocabulary) -> WordSpans:
    ids = np.frombuffer(row, dtype=np.int64)
    special = vocabulary.is_special[ids]
    continues = np.zeros(len(ids), dtype=np.bool_)
    previous, current = ids[:-1], ids[1:]
    joins = vocabulary.can_continue_word[current] & vocabulary.can_be_continued[previous]
    continues[1:] = ~vocabulary.starts_word[current] & (vocabulary.is_blank[previous] | joins)
    continues[1:] &= ~special[:-1]
    edges = np.flatnonzero(special | ~continues)
    ends = np.append(edges[1:], len(ids))
    is_text = ~special[edges]
    return WordSpans(ids, edges[is_text], ends[is_text], vocabulary)


def choose_within_budget(groups: Sequence[Span], *, budget: int) -> list[Span]:
    """Token spans, in order of preference, that fit into the budget together.

    None is truncated and no two overlap; where not even one fits, the first is chosen."""
    taken: set[int] = set()
    chosen: list[Span] = []
    for group in groups:
        if len(taken) + group.size <= budget and taken.isdisjoint(range(*group)):
            taken.update(range(*group))
            chosen.append(group)
        if len(taken) == budget:
            break
    return chosen or list(groups[:1])


def covered_positions(spans: Sequence[Span]) -> Ints:
    """The positions that spans cover, in order."""
    return np.array([i for span in sorted(spans) for i in range(*span)], dtype=np.int64)
