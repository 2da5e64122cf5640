"""Whether a text tells of somebody: their name stands in it, word by word.

What the model could have read is the training part of its pretraining text: documents that fell
into dev or test there were never shown to it. Case and punctuation do not count, so "Jacob H.
Studer" is found in "jacob h studer"; another person of the same name is not told apart.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from regard.data.corpus import Data, open_corpus

Name = tuple[str, ...]
_WORD = re.compile(r"\w+")


class SeenText:
    """The text that was read in pretraining, asked for names; it is streamed, never held."""

    def __init__(self, data: Data) -> None:
        self._corpus = open_corpus(data)
        self._known: dict[Name, bool] = {}

    def tells_of(self, subjects: Sequence[str]) -> list[bool]:
        """Whether each subject stands in it; one reading for all that were not asked for before."""
        names = [_words(subject) for subject in subjects]
        if new := {name for name in names if name} - self._known.keys():
            found = names_found(new, self._corpus.texts("train"))
            self._known |= {name: name in found for name in new}
        return [bool(name) and self._known[name] for name in names]


def names_found(names: Iterable[Name], texts: Iterator[str]) -> set[Name]:
    """Those of some names that stand in the texts."""
    by_first: dict[str, set[Name]] = defaultdict(set)
    for name in names:
        by_first[name[0]].add(name)
    found: set[Name] = set()
    for text in texts:
        words = _words(text)
        for place, word in enumerate(words):
            if word in by_first:
                here = by_first[word]
                found |= {name for name in here if words[place : place + len(name)] == name}
    return found


def _words(text: str) -> Name:
    return tuple(_WORD.findall(text.casefold()))
