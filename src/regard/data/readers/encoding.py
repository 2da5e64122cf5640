"""Text files as UTF-8, whatever they are written in: UTF-8, UTF-16, or cp1252 (Windows, Western
Europe; Latin-1 is part of it).

A byte order mark names UTF-16. Else the first bytes that are not ASCII decide before they are
read: they are UTF-8 or they are not. If not, cp1252 is believed only where it reads as words of a
Western language, for other old encodings would silently give wrong letters.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Literal

from regard.core.errors import UserError
from regard.data.readers.compression import read_blocks
from regard.data.readers.foreign_formats import refuse_foreign

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "cp1252"]

ENCODING_NAMES: dict[Encoding, str] = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8 with a byte order mark",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "cp1252": "cp1252 (Windows, Western Europe)",
}
MARKS: dict[Encoding, bytes] = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
MAX_CHARACTER_BYTES = 4
NOT_ASCII = re.compile(rb"[\x80-\xff]")
MAX_NON_ASCII_LETTERS = 0.5
"Of all letters; in Cyrillic or Greek read as cp1252 nearly all are."
MAX_ODD = 0.1
"Fraction of the letters outside ASCII that may stand where no word has them."
ODD = re.compile(
    "[^\\W\\d_][¡-©«-´¶-¹»-¿×÷‚-„†‡‰‹›](?=[^\\W\\d_])"  # a sign inside a word
    "|[a-zß-öø-ÿ][À-ÖØ-ÞŠŒŽŸ]"  # a capital after a small letter
)


def utf8_blocks(path: Path) -> Iterator[bytes]:
    """The content of a text file in UTF-8, a block at a time; what cannot be decoded is left as it
    is, for the caller to report with its line."""
    blocks = read_blocks(path)
    first = _at_least(MAX_CHARACTER_BYTES, next(blocks, b""), blocks)
    refuse_foreign(path, first)
    if marked := _marked_encoding(first):
        yield from _to_utf8(chain([first], blocks), marked, path)
        return
    for block in chain([first] if first else [], blocks):
        if block.isascii():
            yield block
            continue
        undecided, encoding = _decide(block, blocks)
        rest = chain([undecided], blocks)
        yield from rest if encoding == "utf-8" else _to_utf8(rest, encoding, path)
        return


def detect_encoding(path: Path) -> Encoding:
    """The encoding that `utf8_blocks` reads; a file that it cannot read counts as UTF-8."""
    blocks = read_blocks(path)
    first = _at_least(MAX_CHARACTER_BYTES, next(blocks, b""), blocks)
    if first.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if marked := _marked_encoding(first):
        return marked
    for block in chain([first], blocks):
        if not block.isascii():
            return _decide(block, blocks)[1]
    return "utf-8"


def _at_least(size: int, block: bytes, blocks: Iterator[bytes]) -> bytes:
    """The block and as many of the following ones as it takes."""
    while len(block) < size and (more := next(blocks, b"")):
        block += more
    return block


def _decide(block: bytes, blocks: Iterator[bytes]) -> tuple[bytes, Encoding]:
    """The encoding by the first character of `block` that is not ASCII; it may be cut at the end,
    and is returned whole."""
    if first := NOT_ASCII.search(block):
        block = _at_least(first.start() + MAX_CHARACTER_BYTES, block, blocks)
    return block, "utf-8" if _is_utf8(block) else "cp1252"


def _marked_encoding(first: bytes) -> Encoding | None:
    """UTF-16, by its byte order mark; that of UTF-8 is left to the reader of lines."""
    marked: tuple[Encoding, ...] = ("utf-16-le", "utf-16-be")
    return next((encoding for encoding in marked if first.startswith(MARKS[encoding])), None)


def _is_utf8(block: bytes) -> bool:
    """Whether bytes that are not ASCII are to be read as UTF-8: they are, or nothing else fits."""
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as problem:
        first = NOT_ASCII.search(block)
        is_first = first is not None and problem.start == first.start()
        is_cut = problem.reason == "unexpected end of data"
        return is_cut or not is_first or not _reads_as_western(block)
    return True


def _reads_as_western(block: bytes) -> bool:
    try:
        text = block.decode("cp1252")
    except UnicodeDecodeError:
        return False
    letters = sum(map(str.isalpha, text))
    non_ascii = sum(not letter.isascii() for letter in text if letter.isalpha())
    if non_ascii > MAX_NON_ASCII_LETTERS * letters:
        return False
    signs = len(NOT_ASCII.findall(block))
    return len(ODD.findall(text)) <= MAX_ODD * signs


def _to_utf8(blocks: Iterator[bytes], encoding: Encoding, path: Path) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 0
    try:
        for block in blocks:
            text = decoder.decode(block)
            lines += text.count("\n")
            yield text.encode("utf-8")
        decoder.decode(b"", final=True)  # half a character at the end
    except UnicodeError as problem:  # also a lone surrogate, which UTF-8 cannot write
        raise UserError(
            f"not valid {ENCODING_NAMES[encoding].split()[0]} ({problem.args[-1]})",
            topic="data",
            where=f"{path}, after line {lines:,}",
            hint="Save it as UTF-8 (spreadsheets call it CSV UTF-8).",
        ) from None
