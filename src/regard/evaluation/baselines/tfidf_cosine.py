"""Cosine similarity of the TF-IDF vectors of two texts.

    x_w = (1 + ln f(w)) · (1 + ln((1 + N) / (1 + n(w))))        score = x · y / (|x| |y|)

f(w) is the frequency of w in a text, n(w) the number of the N training texts that contain it; a
word in none of them has the highest weight. Texts without a shared word score 0. Labels are not
used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from regard.evaluation.baselines.bm25 import plain_words


class TfidfCosine:
    """Cosine similarity, from 0 to 1."""

    label = "TF-IDF cosine (words)"

    def __init__(self, texts: Iterable[str]) -> None:
        self._document_frequency: Counter[str] = Counter()
        self._texts = 0
        for text in texts:
            self._document_frequency.update(set(plain_words(text)))
            self._texts += 1

    def score(self, first: str, second: str) -> float:
        x, y = self._weights(first), self._weights(second)
        norm = math.sqrt(_dot(x, x) * _dot(y, y))
        return min(1.0, _dot(x, y) / norm) if norm else 0.0

    def _weights(self, text: str) -> dict[str, float]:
        return {
            word: (1 + math.log(count)) * self._idf(word)
            for word, count in Counter(plain_words(text)).items()
        }

    def _idf(self, word: str) -> float:
        return 1 + math.log((1 + self._texts) / (1 + self._document_frequency[word]))


def _dot(x: dict[str, float], y: dict[str, float]) -> float:
    return math.fsum(weight * y[word] for word, weight in x.items() if word in y)
