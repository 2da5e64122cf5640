"""Plain text of vocabulary pieces, with a space before those that begin a word.

Ġhouse → " house"    ▁house → " house"    house → " house", ##s → "s"    house</w> → "house "
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokenizers import decoders

REPLACEMENT_CHARACTER = "\ufffd"
"Replaces incomplete UTF-8 sequences and unknown tokens."

Spell = Callable[[str], str]


def piece_to_text(description: dict[str, Any]) -> Spell:
    """A function from a piece to its plain text, chosen by the tokenizer.json `description`."""
    model, decoder = description["model"], description["decoder"]
    marks = str((decoder, description["pre_tokenizer"]))
    if "ByteLevel" in marks:
        byte_level = decoders.ByteLevel()
        return lambda piece: str(byte_level.decode([piece]))
    if "Metaspace" in marks:
        return lambda piece: piece.replace("▁", " ")
    if model["type"] == "WordPiece":
        prefix = str(model.get("continuing_subword_prefix") or "##")
        return lambda piece: piece.removeprefix(prefix) if piece.startswith(prefix) else f" {piece}"
    if model["type"] == "WordLevel" and decoder is None:
        return lambda piece: f" {piece}"
    ending = model.get("end_of_word_suffix")
    return (lambda piece: piece.replace(ending, " ")) if ending else (lambda piece: piece)
