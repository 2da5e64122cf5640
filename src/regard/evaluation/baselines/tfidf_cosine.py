"""TF-IDF cosine: how alike two texts are by the words they share, rare words counting for more.

    x_w = (1 + ln f(w)) · (1 + ln((1 + N) / (1 + n(w))))        score = x · y / (|x| |y|)

f(w) is how often w is in a text, n(w) in how many of the N training texts; a word that none of them
has is the rarest of all. Two texts without a word in common score 0. No score is learnt from.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from regard.evaluation.baselines.bm25 import plain_words


class TfidfCosine:
    """Scores from 0 to 1."""

    label = "TF-IDF cosine (words)"

    def __init__(self, texts: Iterable[str]) -> None:
        self._within: Counter[str] = Counter()
        self._texts = 0
        for text in texts:
            self._within.update(set(plain_words(text)))
            self._texts += 1

    def score(self, first: str, second: str) -> float:
        x, y = self._weights(first), self._weights(second)
        length = math.sqrt(_dot(x, x) * _dot(y, y))
        return min(1.0, _dot(x, y) / length) if length else 0.0

    def _weights(self, text: str) -> dict[str, float]:
        return {
            word: (1 + math.log(times)) * self._rarity(word)
            for word, times in Counter(plain_words(text)).items()
        }

    def _rarity(self, word: str) -> float:
        return 1 + math.log((1 + self._texts) / (1 + self._within[word]))


def _dot(x: dict[str, float], y: dict[str, float]) -> float:
    return math.fsum(weight * y[word] for word, weight in x.items() if word in y)
