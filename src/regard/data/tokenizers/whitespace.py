"""Whitespace words as tokens, for statistics without a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final


class WhitespaceTokenizer:
    """What the token cache needs of a tokenizer; ids in order of appearance."""

    fingerprint: Final = "whitespace words"
    size: Final = 1 << 32
    unk: Final = None

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
        ids = self._ids
        return [[ids.setdefault(word, len(ids)) for word in text.split()] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        words = list(self._ids)  # dicts keep insertion order, which is the order of ids
        return " ".join(words[i] for i in ids)
