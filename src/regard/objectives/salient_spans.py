"""Salient spans: names, dates and numbers, which carry world knowledge rather than language.

Runs of capitalised words (names), dates, numbers, and phrases of a list that the user gives; found
by spelling alone (Guu et al., 2020, use a tagger). Function words that are capitalised because they
open a sentence ("The", "He", "Born") do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from regard.core.errors import UserError
from regard.core.files import read_text
from regard.objectives.words import Span, WordSpans

WordType = Literal["name", "date", "other"]


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


MONTHS = _word_set(
    "January February March April May June July August September October November December"
)
SENTENCE_OPENERS = _word_set(
    """A After Although An And As At Before Born But By During Each For From He Her His However I If
    In It Its Later My On Our She Since So That The Their Then There These They This Those Though To
    Under Until We When Where While Who With You Your"""
)
PREPOSITIONS = _word_set(
    """about above across after against along among around at before behind below beside between
    beyond by during for from in inside into near of off on outside over since through throughout to
    toward towards under until upon with within without"""
)
SENTENCE_ENDS = (".", "!", "?", ":")

Phrases = Mapping[str, tuple[tuple[str, ...], ...]]
"By their first word, the longest first."

NO_PHRASES: Phrases = {}


def salient_spans(words: WordSpans, phrases: Phrases = NO_PHRASES) -> list[Span]:
    """Names, dates, numbers and listed phrases, in words, in order; a listed phrase is one span,
    whatever the type of its words."""
    return _find_spans(words, phrases, types=("name", "date"))


def name_spans(words: WordSpans, phrases: Phrases = NO_PHRASES) -> list[Span]:
    """Salient spans without dates and numbers."""
    return _find_spans(words, phrases, types=("name",))


def has_cue(words: WordSpans, span: Span) -> bool:
    """Whether a preposition or a number comes before it, as before most locations and dates."""
    if span.begin == 0 or not words.follows[span.begin]:
        return False
    before = words.texts[span.begin - 1]
    return before.lower() in PREPOSITIONS or before[:1].isdigit()


def first_sentence_length(words: WordSpans) -> int:
    """Number of words in the first sentence, its full stop included; 0 where no sentence ends.
    The full stop after an initial ends no sentence."""
    for index, text in enumerate(words.texts):
        if index and not words.follows[index]:
            return 0
        if text.endswith(".") and not (text == "." and _is_initial(words, index - 1)):
            return index + 1
    return 0


@lru_cache(maxsize=8)
def read_phrases(path: str) -> Phrases:
    """The phrases of a file, one a line."""
    hint = "Give objective.phrases a text file with one phrase a line."
    lines = read_text(Path(path), topic="objective", hint=hint).splitlines()
    split = {tuple(re.findall(r"[\w'’-]+|[^\w\s]", line)) for line in lines} - {()}
    if not split:
        raise UserError(
            "the list of phrases is empty",
            topic="objective",
            where=path,
            hint="Write one phrase a line, or leave objective.phrases out.",
        )
    by_first_word: dict[str, tuple[tuple[str, ...], ...]] = {}
    for phrase in sorted(split, key=lambda one: (-len(one), one)):
        by_first_word[phrase[0]] = (*by_first_word.get(phrase[0], ()), phrase)
    return by_first_word


def _find_spans(words: WordSpans, phrases: Phrases, *, types: tuple[WordType, ...]) -> list[Span]:
    listed = _find_phrases(words, phrases)
    in_phrase = {index for span in listed for index in range(*span)}
    return sorted([*listed, *_find_runs(words, in_phrase, types=types)])


def _find_phrases(words: WordSpans, phrases: Phrases) -> list[Span]:
    found: list[Span] = []
    index = 0
    while phrases and index < len(words):
        for phrase in phrases.get(words.texts[index], ()):
            end = index + len(phrase)
            if words.texts[index:end] == phrase and all(words.follows[index + 1 : end]):
                found.append(Span(index, end))
                index = end - 1
                break
        index += 1
    return found


def _find_runs(words: WordSpans, in_phrase: set[int], *, types: tuple[WordType, ...]) -> list[Span]:
    """Maximal runs of adjacent words of one type."""
    runs: list[Span] = []
    previous: WordType = "other"
    for index in range(len(words)):
        current: WordType = "other" if index in in_phrase else _word_type(words, index)
        if current in types:
            if current == previous and words.follows[index]:
                runs[-1] = Span(runs[-1].begin, index + 1)
            else:
                runs.append(Span(index, index + 1))
        previous = current
    return runs


def _word_type(words: WordSpans, index: int) -> WordType:
    text = words.texts[index]
    if text[:1].isdigit() or text in MONTHS:
        return "date"
    if not text[:1].isupper():
        return "other"
    return "other" if text in SENTENCE_OPENERS and _opens_sentence(words, index) else "name"


def _opens_sentence(words: WordSpans, index: int) -> bool:
    return not words.follows[index] or words.texts[index - 1].endswith(SENTENCE_ENDS)


def _is_initial(words: WordSpans, index: int) -> bool:
    return index >= 0 and len(words.texts[index]) == 1 and words.texts[index].isupper()
