"""Whether the pretraining text mentions a subject: its name occurs in it, word by word.

Only the train split counts: the model never saw documents of dev and test. Case and punctuation do
not count, so "Jacob H. Studer" is found in "jacob h studer"; namesakes are not distinguished.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from regard.data.corpus import Data, open_corpus

Name = tuple[str, ...]
_WORD = re.compile(r"\w+")


class PretrainingText:
    """The pretraining text, searched for names; it is streamed, never held in memory."""

    def __init__(self, data: Data) -> None:
        self._corpus = open_corpus(data)
        self._is_mentioned: dict[Name, bool] = {}

    def mentions(self, subjects: Sequence[str]) -> list[bool]:
        """Whether the text mentions each subject; one pass over it for all new names."""
        names = [_words(subject) for subject in subjects]
        if new := {name for name in names if name} - self._is_mentioned.keys():
            found = find_names(new, self._corpus.texts("train"))
            self._is_mentioned |= {name: name in found for name in new}
        return [bool(name) and self._is_mentioned[name] for name in names]


def find_names(names: Iterable[Name], texts: Iterator[str]) -> set[Name]:
    """The names that occur in the texts."""
    by_first: dict[str, set[Name]] = defaultdict(set)
    for name in names:
        by_first[name[0]].add(name)
    found: set[Name] = set()
    for text in texts:
        words = _words(text)
        for begin, word in enumerate(words):
            if word in by_first:
                candidates = by_first[word]
                found |= {name for name in candidates if words[begin : begin + len(name)] == name}
    return found


def _words(text: str) -> Name:
    return tuple(_WORD.findall(text.casefold()))
