"""Whether the first row of a table names its columns, by how it differs from the rows below.

Names are words, above numbers too; they do not recur as values, and are shorter than sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles

from regard.data.numbers import parse_number
from regard.data.recognition import names
from regard.data.recognition.profile import SENTENCE_END, profile_column
from regard.data.recognition.words import count_words

KNOWN = (
    names.TEXT,
    names.LABEL,
    names.SCORE,
    names.ID,
    names.QUESTION,
    names.ANSWER,
    names.SUMMARY,
    names.SOURCE,
    names.TARGET,
    names.HEADLINE,
)


def has_header(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """`below` are the rows under the first one; rows of another length say nothing, nor does the
    first row again, as in files that were joined."""
    rows = [row for row in below if len(row) >= len(first) and row != first]
    columns = [[row[index] for row in rows] for index in range(len(first))]
    return sum(_evidence(*pair) for pair in zip(first, columns, strict=True)) >= 0


def _evidence(name: str, values: Sequence[str]) -> int:
    """Above 0: the cell names the column below it; below 0: it is one of its values."""
    name = name.strip()
    values = [value.strip() for value in values if value.strip()]
    if not values:
        return 0
    column = profile_column("", values)
    if column.numbers is not None:
        return -3 if parse_number(name) is not None else 2
    if column.kind in ("label", "category", "constant"):
        return -3 if name in column.counts else 2
    if name in values:
        return -1
    if name and any(known.fullmatch(name) for known in KNOWN):
        return 3
    if SENTENCE_END.search(name) or parse_number(name) is not None:
        return -2
    words = [count_words(value) for value in values]
    shortest = quantiles(words, n=10)[0] if len(words) > 1 else words[0]
    return 1 if count_words(name) < shortest or count_words(name) == 1 else -1
