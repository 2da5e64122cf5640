"""Salient spans: what a text says of the world rather than of its language.

Runs of capitalised words (names), dates, numbers, and phrases of a list that the user gives; found
by spelling alone (Guu et al., 2020, find them with a tagger). Little words with which sentences
begin ("The", "He", "Born") are capitalised for another reason and do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from regard.core.errors import UserError
from regard.objectives.words import Span, WordSpans

Sort = Literal["name", "date", "other"]


def _each(words: str) -> frozenset[str]:
    return frozenset(words.split())


MONTHS = _each(
    "January February March April May June July August September October November December"
)
OPENERS = _each(
    """A After Although An And As At Before Born But By During Each For From He Her His However I If
    In It Its Later My On Our She Since So That The Their Then There These They This Those Though To
    Under Until We When Where While Who With You Your"""
)
PREPOSITIONS = _each(
    """about above across after against along among around at before behind below beside between
    beyond by during for from in inside into near of off on outside over since through throughout to
    toward towards under until upon with within without"""
)
ENDS = (".", "!", "?", ":")

Phrases = Mapping[str, tuple[tuple[str, ...], ...]]
"By their first word, the longest first."

NO_PHRASES: Phrases = {}


def salient_spans(words: WordSpans, phrases: Phrases = NO_PHRASES) -> list[Span]:
    """In words, in order; a phrase of the list is one span, whatever its words look like."""
    listed = _listed(words, phrases)
    inside = {number for span in listed for number in range(*span)}
    return sorted([*listed, *_runs(words, inside, sorts=("name", "date"))])


def name_runs(words: WordSpans, phrases: Phrases = NO_PHRASES) -> list[Span]:
    """As salient spans, without dates and numbers."""
    listed = _listed(words, phrases)
    inside = {number for span in listed for number in range(*span)}
    return sorted([*listed, *_runs(words, inside, sorts=("name",))])


def is_introduced(words: WordSpans, span: Span) -> bool:
    """Whether a preposition or a number stands before it, as before most places and dates."""
    if span.begin == 0 or not words.follows[span.begin]:
        return False
    before = words.texts[span.begin - 1]
    return before.lower() in PREPOSITIONS or before[:1].isdigit()


def first_sentence(words: WordSpans) -> int:
    """How many words it has, its full stop too; 0 where none ends. An initial ends no sentence."""
    for number, text in enumerate(words.texts):
        if number and not words.follows[number]:
            return 0
        if text.endswith(".") and not (text == "." and _is_initial(words, number - 1)):
            return number + 1
    return 0


@lru_cache(maxsize=8)
def read_phrases(path: str) -> Phrases:
    """The phrases of a file, one a line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise UserError(
            f"the list of phrases cannot be read ({reason})",
            topic="objective",
            where=path,
            hint="Give objective.phrases a text file with one phrase a line.",
        ) from None
    cut = {tuple(re.findall(r"[\w'’-]+|[^\w\s]", line)) for line in lines} - {()}
    if not cut:
        raise UserError(
            "the list of phrases is empty",
            topic="objective",
            where=path,
            hint="Write one phrase a line, or leave objective.phrases out.",
        )
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for phrase in sorted(cut, key=lambda one: (-len(one), one)):
        found[phrase[0]] = (*found.get(phrase[0], ()), phrase)
    return found


def _listed(words: WordSpans, phrases: Phrases) -> list[Span]:
    found: list[Span] = []
    number = 0
    while phrases and number < len(words):
        for phrase in phrases.get(words.texts[number], ()):
            end = number + len(phrase)
            if words.texts[number:end] == phrase and all(words.follows[number + 1 : end]):
                found.append(Span(number, end))
                number = end - 1
                break
        number += 1
    return found


def _runs(words: WordSpans, inside: set[int], *, sorts: tuple[Sort, ...]) -> list[Span]:
    """Longest runs of neighbouring words of one sort."""
    found: list[Span] = []
    last: Sort = "other"
    for number in range(len(words)):
        here: Sort = "other" if number in inside else _sort(words, number)
        if here in sorts:
            if here == last and words.follows[number]:
                found[-1] = Span(found[-1].begin, number + 1)
            else:
                found.append(Span(number, number + 1))
        last = here
    return found


def _sort(words: WordSpans, number: int) -> Sort:
    text = words.texts[number]
    if text[:1].isdigit() or text in MONTHS:
        return "date"
    if not text[:1].isupper():
        return "other"
    return "other" if text in OPENERS and _opens_sentence(words, number) else "name"


def _opens_sentence(words: WordSpans, number: int) -> bool:
    return not words.follows[number] or words.texts[number - 1].endswith(ENDS)


def _is_initial(words: WordSpans, number: int) -> bool:
    return number >= 0 and len(words.texts[number]) == 1 and words.texts[number].isupper()
