"""How a vocabulary spells its pieces, undone: plain text, a space before what begins a word.

Ġhouse → " house"    ▁house → " house"    house → " house", ##s → "s"    house</w> → "house "
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokenizers import pre_tokenizers

REPLACEMENT_CHARACTER = "\ufffd"
"Stands for bytes that are no whole character, and for what a vocabulary does not know."

Spell = Callable[[str], str]


def piece_to_text(description: dict[str, Any]) -> Spell:
    """From a vocabulary's spelling to plain text, by what its tokenizer.json says of itself."""
    model, decoder = description["model"], description["decoder"]
    marks = str((decoder, description["pre_tokenizer"]))
    if "ByteLevel" in marks:
        return _from_bytes()
    if "Metaspace" in marks:
        return lambda piece: piece.replace("▁", " ")
    if model["type"] == "WordPiece":
        inside = str(model.get("continuing_subword_prefix") or "##")
        return lambda piece: piece.removeprefix(inside) if piece.startswith(inside) else f" {piece}"
    if model["type"] == "WordLevel" and decoder is None:
        return lambda piece: f" {piece}"
    ending = model.get("end_of_word_suffix")
    return (lambda piece: piece.replace(ending, " ")) if ending else (lambda piece: piece)


def _from_bytes() -> Spell:
    """Undo the alphabet in which byte-level tokenizers write the 256 bytes (Radford et al., 2019):
    printable ones as they are, the others as characters from U+0100 on, in order."""
    alphabet = set(pre_tokenizers.ByteLevel.alphabet())
    themselves = sorted(ord(c) for c in alphabet if ord(c) < 256)
    moved = [byte for byte in range(256) if byte not in set(themselves)]
    byte_of = {chr(byte): byte for byte in themselves}
    byte_of |= {chr(256 + number): byte for number, byte in enumerate(moved)}

    def spell(piece: str) -> str:
        if any(c not in byte_of for c in piece):
            return piece  # an added token, which is written as it is read
        return bytes(byte_of[c] for c in piece).decode(errors="replace")

    return spell
