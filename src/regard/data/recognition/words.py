"""Counting words, in any script."""

from __future__ import annotations

import re

from regard.core.scripts import UNSPACED

WORD_BY_ITSELF = re.compile(f"[{UNSPACED}]")
"A character of a script that puts no spaces between words."


def count_words(text: str) -> int:
    unspaced = 0 if text.isascii() else len(WORD_BY_ITSELF.findall(text))
    return len(text.split()) + unspaced
