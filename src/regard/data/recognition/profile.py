"""The kind of a column, from its values: text, label, number, index, id, date, constant, …

profile_column("stars", ["5", "1", "4", …])  →  label, 5 values, whole numbers from 1 to 5
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from regard.data.numbers import parse_number
from regard.data.recognition import names
from regard.data.recognition.words import count_words

Kind = Literal[
    "text", "texts", "label", "number", "index", "id", "date", "constant", "empty", "category",
    "sequence", "other",
]  # fmt: skip
"""`texts`: lists of texts. `sequence`: lists of numbers or short words. `category`: short strings
that recur, too many for labels, such as authors. `other`: objects and mixtures."""

MAX_CLASSES = 20
MAX_CLASSES_OF_NUMBERS = 10
"More different whole numbers are a quantity."
MAX_EXACT = 2.0**53
"Larger whole numbers count nothing: a float does not tell them apart."
MIN_ROWS_OF_CLASS = 4
"Mean rows of a value from which on a column may be a label."
MAX_LABEL_WORDS = 5
MIN_RATE = 0.95
"Fraction of the values that have to fit a kind."
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d.*)?")
LEADING_ZERO = re.compile(r"0\d+")
CODE = re.compile(r"\S*\d\S*|https?://\S+|\S+\.\w{1,5}")
"An identifier: a word with a digit, an address, a file."
SENTENCE_END = re.compile(r"[.?!…]['\")\]]*\s*$")


@dataclass(frozen=True)
class ColumnProfile:
    """A column as its values show it."""

    name: str
    kind: Kind
    rows: int
    filled: int
    "Rows that have a value."
    counts: Counter[str]
    "How often each value occurs, as text; empty for texts."
    distinct: int
    mean_words: float
    numbers: tuple[float, float] | None = None
    "The smallest and the largest value of a column of numbers."
    are_whole: bool = False

    @property
    def is_ordinal(self) -> bool:
        """Whether the labels are numbers that may be degrees of something: stars, grades."""
        return self.kind == "label" and self.are_whole and self.distinct > 2

    @cached_property
    def majority_rate(self) -> float:
        return self.counts.most_common(1)[0][1] / max(1, self.filled) if self.counts else 0.0


def profile_column(name: str, values: Sequence[Any]) -> ColumnProfile:
    filled = [value for value in values if not is_missing(value)]
    lists = [value for value in filled if isinstance(value, list | tuple)]
    if len(lists) > len(filled) / 2:
        return _list_profile(name, len(values), lists)
    plain = [as_text(value) for value in filled if not isinstance(value, dict | list | tuple)]
    if len(plain) < len(filled):
        kind: Kind = "other"
        return ColumnProfile(name, kind, len(values), len(filled), Counter(), 0, 0.0)
    counts = Counter(plain)
    words = sum(map(count_words, plain)) / max(1, len(plain))
    numbers = _numbers(plain)
    are_whole = numbers is not None and all(number == int(number) for number in numbers)
    if any(map(LEADING_ZERO.fullmatch, counts)):  # 0012 is a number of something
        kind = "id" if len(counts) > MAX_CLASSES else "category"
    else:
        kind = _kind(name, plain, counts, words, numbers)
    return ColumnProfile(
        name,
        kind,
        len(values),
        len(filled),
        counts if kind != "text" else Counter(),
        len(counts),
        words,
        (min(numbers), max(numbers)) if numbers else None,
        are_whole,
    )


def is_missing(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, list | tuple):
        return not value
    return value is None or (isinstance(value, str) and not value.strip())


def as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def joined(value: Any) -> str:
    """A text, or a list of texts as one."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _list_profile(name: str, rows: int, lists: Sequence[Any]) -> ColumnProfile:
    items = [item for value in lists for item in value]
    are_texts = all(isinstance(item, str) for item in items)
    words = sum(count_words(item) for item in items if isinstance(item, str))
    is_text = are_texts and bool(items) and words >= 2 * len(items)
    kind: Kind = "texts" if is_text else "sequence"
    return ColumnProfile(name, kind, rows, len(lists), Counter(), 0, words / max(1, len(lists)))


def _kind(
    name: str,
    plain: Sequence[str],
    counts: Counter[str],
    words: float,
    numbers: Sequence[float] | None,
) -> Kind:
    if not plain:
        return "empty"
    if len(counts) == 1:
        return "constant" if len(plain) > 1 else "text"
    if numbers is not None:
        return _kind_of_numbers(name, counts, numbers)
    if _rate(plain, DATE) >= MIN_RATE:
        return "date"
    if words <= MAX_LABEL_WORDS and len(counts) <= _max_labels(len(plain), MAX_CLASSES):
        return "label"
    if words < 1.05 and len(counts) >= MIN_RATE * len(plain):
        is_code = _rate(plain, CODE) >= MIN_RATE or bool(name and names.ID.fullmatch(name))
        return "id" if is_code else "text"
    are_sentences = sum(SENTENCE_END.search(value) is not None for value in plain) * 2 > len(plain)
    if words <= MAX_LABEL_WORDS and 2 * len(counts) <= len(plain) and not are_sentences:
        return "category"
    return "text"


def _kind_of_numbers(name: str, counts: Counter[str], numbers: Sequence[float]) -> Kind:
    are_whole = all(number == int(number) for number in numbers)
    if are_whole and len(counts) == len(numbers):
        counted = all(right - left == 1 for left, right in pairwise(numbers))
        if names.ID.fullmatch(name):
            return "index"
        if counted and len(numbers) > 2:
            return "index"
    if are_whole and max(map(abs, numbers)) >= MAX_EXACT:
        return "id"
    if are_whole and len(counts) <= _max_labels(len(numbers), MAX_CLASSES_OF_NUMBERS):
        return "label"
    if names.ID.fullmatch(name) and are_whole:
        return "id"
    if are_whole and all(1900 <= number <= 2100 for number in numbers):
        return "date"
    return "number"


def _max_labels(rows: int, limit: int) -> float:
    return max(2, min(limit, rows / MIN_ROWS_OF_CLASS))


def _numbers(texts: Sequence[str]) -> list[float] | None:
    """The values as numbers; None if one of them is none."""
    numbers = []
    for text in texts:
        number = parse_number(text)
        if number is None:
            return None
        numbers.append(number)
    return numbers or None


def _rate(values: Sequence[str], pattern: re.Pattern[str]) -> float:
    return sum(pattern.fullmatch(value) is not None for value in values) / max(1, len(values))
