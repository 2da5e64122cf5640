"""The most frequent tag of each word in training; of unknown words, of words that occur once.

What a model adds to it comes from the context of a word. Rare words resemble unknown ones more than
frequent words do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from regard.core.errors import UserError


class WordTags:
    """Tags words without their context."""

    label = "most frequent tag of each word"

    def __init__(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> None:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for words, own in zip(sentences, tags, strict=True):
            for word, tag in zip(words, own, strict=True):
                counts[word][tag] += 1
        if not counts:
            raise UserError(
                "there is no training word to take a tag from",
                topic="baseline",
                hint="Give a training split with words.",
            )
        once = sum((own for own in counts.values() if own.total() == 1), Counter[str]())
        every = sum(counts.values(), Counter[str]())
        self._tags = {word: _most_frequent(own) for word, own in counts.items()}
        self._unknown = _most_frequent(once or every)

    def predict(self, words: Sequence[str]) -> list[str]:
        return [self._tags.get(word, self._unknown) for word in words]


def _most_frequent(counts: Counter[str]) -> str:
    """Ties by name, so that the order of the rows does not matter."""
    return min(counts, key=lambda tag: (-counts[tag], tag))
