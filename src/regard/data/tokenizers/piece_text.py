"""Plain text of vocabulary pieces, with a space before those that begin a word.

Ġhouse → " house"    ▁house → " house"    house → " house", ##s → "s"    house</w> → "house "
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokenizers import pre_tokenizers

REPLACEMENT_CHARACTER = "\ufffd"
"Replaces incomplete UTF-8 sequences and unknown tokens."

Spell = Callable[[str], str]


def piece_to_text(description: dict[str, Any]) -> Spell:
    """A function from a piece to its plain text, chosen by the tokenizer.json `description`."""
    model, decoder = description["model"], description["decoder"]
    marks = str((decoder, description["pre_tokenizer"]))
    if "ByteLevel" in marks:
        return _decode_byte_level()
    if "Metaspace" in marks:
        return lambda piece: piece.replace("▁", " ")
    if model["type"] == "WordPiece":
        prefix = str(model.get("continuing_subword_prefix") or "##")
        return lambda piece: piece.removeprefix(prefix) if piece.startswith(prefix) else f" {piece}"
    if model["type"] == "WordLevel" and decoder is None:
        return lambda piece: f" {piece}"
    ending = model.get("end_of_word_suffix")
    return (lambda piece: piece.replace(ending, " ")) if ending else (lambda piece: piece)


def _decode_byte_level() -> Spell:
    """Undo the alphabet of byte-level tokenizers (Radford et al., 2019): printable bytes as they
    are, the others as characters from U+0100 on, in order."""
    alphabet = set(pre_tokenizers.ByteLevel.alphabet())
    printable = sorted(ord(c) for c in alphabet if ord(c) < 256)
    shifted = [byte for byte in range(256) if byte not in set(printable)]
    byte_values = {chr(byte): byte for byte in printable}
    byte_values |= {chr(256 + number): byte for number, byte in enumerate(shifted)}

    def spell(piece: str) -> str:
        if any(c not in byte_values for c in piece):
            return piece  # an added token, stored as plain text
        return bytes(byte_values[c] for c in piece).decode(errors="replace")

    return spell
