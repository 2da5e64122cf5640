"""What two texts of a row are to each other: passage and answer, source and translation, document
and summary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.data.overlap.normalise import normalise
from regard.data.recognition import names
from regard.data.recognition.profile import ColumnProfile, joined
from regard.data.recognition.reading import FITS, NAMED, POSSIBLE, Reading

SAMPLED_ROWS = 500
SUMMARY_RATIO = 0.5
"Words of a summary for each of its document, at most."
ALIKE_RATIO = 0.5
MIN_SHARED = 0.35
"Fraction of the words of a summary that its document has."
MAX_SHARED = 0.35
"Fraction of the words of a translation that its source has: names and numbers."
MIN_WORDS_PER_TAG = 2
"Different words for each tag, at least."
QUESTION_WORD = re.compile(
    r"(what|who|whose|whom|when|where|which|why|how|is|are|was|were|do|does|did|can|could|has|have"
    r"|will|wer|was|wann|wo|welche\w*|warum|wie|qui|que|quand|où|comment)\b",
    re.IGNORECASE,
)


def are_alike_in_length(first: ColumnProfile, second: ColumnProfile) -> bool:
    shorter, longer = sorted((first.mean_words, second.mean_words))
    return shorter >= ALIKE_RATIO * longer


def question_rate(values: Sequence[Any]) -> float:
    """Fraction of the texts that are questions, by their mark or their first word."""
    texts = [joined(value) for value in values[:SAMPLED_ROWS] if value is not None]
    is_question = (
        text.rstrip().endswith(("?", "？")) or QUESTION_WORD.match(text.strip()) for text in texts
    )
    return sum(map(bool, is_question)) / max(1, len(texts))


def answers_in_context(
    columns: Mapping[str, Sequence[Any]], context: ColumnProfile, answer: ColumnProfile
) -> float:
    """Fraction of the answers that stand in their passage, of the rows that have one."""
    found = total = 0
    rows = zip(columns[context.name], columns[answer.name], strict=True)
    for passage, given in list(rows)[:SAMPLED_ROWS]:
        answers = [str(one) for one in given] if isinstance(given, list) else [str(given or "")]
        answers = [one for one in answers if one.strip()]
        if answers and isinstance(passage, str):
            total += 1
            found += any(one.strip().lower() in passage.lower() for one in answers)
    return found / total if total >= 2 else 0.0


def are_words_and_tags(words: Sequence[Any], tags: Sequence[Any]) -> bool:
    """Whether the second column has a tag for each word of the first: far fewer different ones."""
    rows = [
        pair
        for pair in zip(words[:SAMPLED_ROWS], tags[:SAMPLED_ROWS], strict=True)
        if all(isinstance(side, list) and side for side in pair)
    ]
    if not rows or any(len(left) != len(right) for left, right in rows):
        return False
    if sum(len(left) for left, _ in rows) == len(rows):  # a list of one says nothing
        return False
    words_given = [word for left, _ in rows for word in left]
    tags_given = [tag for _, right in rows for tag in right]
    are_texts = all(isinstance(word, str) and len(word.split()) == 1 for word in words_given)
    if not are_texts or not all(isinstance(tag, str | int) for tag in tags_given):
        return False
    known_words, known_tags = {*words_given}, {*tags_given}
    return MIN_WORDS_PER_TAG * len(known_tags) <= len(known_words)


def pair_of_texts(
    one: ColumnProfile,
    other: ColumnProfile,
    rows: Sequence[tuple[str, ...]],
    *,
    is_alone: bool,
) -> Iterator[Reading]:
    """Translation or summarisation, from the lengths of both sides and the words they share."""
    if not rows:
        return
    longer, shorter = (one, other) if one.mean_words >= other.mean_words else (other, one)
    swap = longer is other
    shared = _shared_words([row[::-1] if swap else row for row in rows])
    ratio = shorter.mean_words / max(1e-9, longer.mean_words)
    columns = {"document": longer.name, "summary": shorter.name}
    is_named = _name(names.DOCUMENT, longer) and _name(names.SUMMARY, shorter)
    if ratio <= SUMMARY_RATIO and shared >= MIN_SHARED:
        score = NAMED + 1.0 if is_named else FITS if is_alone else POSSIBLE
        if not is_named and names.HEADLINE.fullmatch(shorter.name):
            score = POSSIBLE
        yield Reading("summarisation", columns, score)
    elif is_named and ratio <= SUMMARY_RATIO:
        yield Reading("summarisation", columns, FITS)
    if ratio < ALIKE_RATIO or shared > MAX_SHARED:
        return
    source, target = _direction(one, other)
    are_languages = {source.name.lower(), target.name.lower()} <= names.LANGUAGES
    is_directed = _name(names.SOURCE, source) and _name(names.TARGET, target)
    score = NAMED if are_languages or is_directed else FITS if is_alone else POSSIBLE
    yield Reading("translation", {"source": source.name, "target": target.name}, score)


def _direction(one: ColumnProfile, other: ColumnProfile) -> tuple[ColumnProfile, ColumnProfile]:
    """Source and target; where names do not say, English is the source, else the first column."""
    is_target = _name(names.TARGET, one) or _name(names.SOURCE, other)
    if is_target or (other.name.lower() == "en" and one.name.lower() in names.LANGUAGES):
        return other, one
    return one, other


def _name(pattern: re.Pattern[str], column: ColumnProfile) -> bool:
    return pattern.fullmatch(column.name) is not None


def _shared_words(rows: Sequence[tuple[str, ...]]) -> float:
    """Mean fraction of the second text's words that the first has."""
    rates = []
    for long, short in rows:
        words = set(normalise(short).split())
        if words:
            rates.append(len(words & set(normalise(long).split())) / len(words))
    return sum(rates) / max(1, len(rates))
