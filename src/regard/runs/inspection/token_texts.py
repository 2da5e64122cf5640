"""Tokens as people read them: each alone, or as the pieces that a text is made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.batch import Ints
from regard.data.tokenizers.tokenizer import Tokenizer

INCOMPLETE = "\ufffd"
"What bytes that are half a character are decoded to."


def token_texts(tokenizer: Tokenizer, ids: Ints) -> list[str]:
    """Each token decoded alone, or its piece if it is no text; a dot stands for a space."""
    texts = []
    for token, piece in zip(ids.tolist(), tokenizer.tokens(ids), strict=True):
        text = tokenizer.decode([token])
        if piece.startswith("▁") and not text.startswith("▁"):  # SentencePiece's space
            text = f" {text.lstrip()}"
        elif not text or INCOMPLETE in text:  # a special, or bytes that are half a character
            text = piece
        texts.append(text.replace(" ", "·"))
    return texts


def text_pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """What each token adds to the text of those before it; joined they are the decoded text. Bytes
    that are half a character add nothing until the other half comes."""
    pieces, text = [], ""
    for end in range(1, len(ids) + 1):
        decoded = tokenizer.decode(np.asarray(ids[:end]))
        is_whole = end == len(ids) or not decoded.endswith(INCOMPLETE)
        if is_whole and decoded.startswith(text):
            pieces.append(decoded[len(text) :])
            text = decoded
        else:
            pieces.append("")
    return pieces
