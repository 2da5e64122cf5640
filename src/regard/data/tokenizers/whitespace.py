"""Counting in words where there is no tokenizer: whitespace words, numbered as they come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final


class WhitespaceTokenizer:
    """Looks like a tokenizer to the token cache; memory grows with the vocabulary only."""

    fingerprint: Final = "whitespace words"
    size: Final = 1 << 32
    unk: Final = None

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
        ids = self._ids
        return [[ids.setdefault(word, len(ids)) for word in text.split()] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        words = list(self._ids)  # a dict keeps the order in which ids were given
        return " ".join(words[i] for i in ids)
