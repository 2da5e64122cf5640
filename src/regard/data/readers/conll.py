"""Reader of tagged sentences: a word a line with its columns, a blank line after each sentence.

    EU        NNP  B-NP  B-ORG
    rejects   VBZ  B-VP  O

A record is a sentence: `tokens` is the list of its first column, `tags` that of its last, and those
between are 2, 3, … Columns are separated by tabs, or by spaces where a line has no tab. Lines that
begin with -DOCSTART- divide documents, whose sentences are groups; lines that begin with # followed
by a space are comments before a sentence.
Tjong Kim Sang and De Meulder, 2003, "Introduction to the CoNLL-2003 Shared Task".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.data.readers.lines import read_lines
from regard.data.readers.records import SKIP_HINT, RawRow, Record, RecordReader

NEW_DOCUMENT = "-DOCSTART-"
COMMENT = "# "


def read_conll(path: Path, reader: RecordReader) -> Iterator[Record]:
    yield from reader.records(_rows(path, reader))


def _rows(path: Path, reader: RecordReader) -> Iterator[RawRow]:
    document = 0
    for number, words in _sentences(path):
        if words[0][0] == NEW_DOCUMENT:
            document += 1
            continue
        widths = {len(word) for word in words}
        at = f"line {number:,}"
        if len(widths) > 1:
            what = f"a sentence whose lines have {min(widths)} to {max(widths)} columns"
            hint = f"{SKIP_HINT}, or give each word as many columns."
            reader.drop_bad(reader.error(what, at=at, hint=hint))
            continue
        columns = dict(zip(_names(len(words[0])), map(list, zip(*words, strict=True)), strict=True))
        roles = reader.match_columns(list(columns))
        values = {role: columns[name] for role, name in roles.items()}
        yield RawRow(at, values, group=f"{path.name}, document {document}" if document else None)


def _names(width: int) -> list[str]:
    between = [str(number) for number in range(2, width)]
    return ["tokens", *between, *(["tags"] if width > 1 else [])]


def _sentences(path: Path) -> Iterator[tuple[int, list[list[str]]]]:
    """The first line of each sentence, and its words with their columns."""
    words: list[list[str]] = []
    first = 0
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            if words:
                yield first, words
            words = []
        elif words or not line.startswith(COMMENT):
            first = first if words else number
            words.append(line.split("\t") if "\t" in line else line.split())
            if words[0][0] == NEW_DOCUMENT:
                yield first, words
                words = []
    if words:
        yield first, words
