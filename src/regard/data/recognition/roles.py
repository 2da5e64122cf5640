"""The readings of a table: which columns may be texts, labels, scores, answers or translations.

By content first, by names where content leaves a choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

from regard.data.recognition import names
from regard.data.recognition.profile import ColumnProfile, joined, profile_column
from regard.data.recognition.reading import (
    FALLBACK,
    FITS,
    LANGUAGE_MODEL,
    NAME_BONUS,
    NAMED,
    POSSIBLE,
    Reading,
    rank,
)
from regard.data.recognition.text_pairs import (
    answers_in_context,
    are_alike_in_length,
    are_words_and_tags,
    pair_of_texts,
    question_rate,
)

MIN_RATE = 0.9
MIN_FILLED = 0.5
"Fraction of the rows that have a text, of a column that is read."
SAMPLED_ROWS = 500
"Rows whose texts are compared with each other."
HEADLINE_PENALTY = 3.0

Columns = Mapping[str, Sequence[Any]]


class TableRoles:
    """The columns of a table by what they may be."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.profiles = {name: profile_column(name, values) for name, values in columns.items()}
        self.texts = [one for one in self._of_kind("text") if one.filled >= MIN_FILLED * one.rows]
        self.lists = self._of_kind("texts")
        self.labels = self._of_kind("label")
        self.numbers = self._of_kind("number")
        self.categories = self._of_kind("category")

    def _of_kind(self, kind: str) -> list[ColumnProfile]:
        return [one for one in self.profiles.values() if one.kind == kind]

    def sample(self, *chosen: str) -> list[tuple[str, ...]]:
        """The texts of some columns, row by row, of rows that have them all."""
        values = zip(*(self.columns[name][:SAMPLED_ROWS] for name in chosen), strict=True)
        return [
            tuple(map(joined, row))
            for row in values
            if all(cell is not None and joined(cell).strip() for cell in row)
        ]


def find_readings(columns: Columns) -> list[Reading]:
    """Every reading of a table, the likeliest first."""
    roles = TableRoles(columns)
    found = [
        *_tagging(roles),
        *_extractive(roles),
        *_pairs(roles),
        *_single_texts(roles),
        *_targets(roles),
        *_language_models(roles),
    ]
    return rank(found)


def _tagging(roles: TableRoles) -> Iterator[Reading]:
    """Lists of words, and lists of as many tags."""
    lists = [one.name for one in roles.profiles.values() if one.kind in ("sequence", "texts")]
    for tokens, tags in permutations(lists, 2):
        if are_words_and_tags(roles.columns[tokens], roles.columns[tags]):
            named = names.TOKEN.fullmatch(tokens) and names.TAG.fullmatch(tags)
            score = NAMED + NAME_BONUS * bool(named)
            yield Reading("tagging", {"tokens": tokens, "tags": tags}, score)


def _extractive(roles: TableRoles) -> Iterator[Reading]:
    """A question, a passage, and an answer that stands in the passage."""
    texts = sorted(roles.texts, key=lambda one: -one.mean_words)
    answers = [
        one
        for one in roles.profiles.values()
        if one.kind in ("text", "texts", "category", "label", "id", "sequence", "number", "date")
        and not names.STARTS.fullmatch(one.name)
    ]
    for context, answer in ((c, a) for c in texts for a in answers if a.name != c.name):
        if answer.mean_words > context.mean_words / 3:
            continue
        questions = [one for one in texts if one.name not in (context.name, answer.name)]
        if not questions or answers_in_context(roles.columns, context, answer) < MIN_RATE:
            continue
        named = names.ANSWER.fullmatch(answer.name.rpartition(".")[0] or answer.name)
        question = max(questions, key=lambda one: question_rate(roles.columns[one.name]))
        if not named and question_rate(roles.columns[question.name]) < 0.5:
            continue
        found = {"context": context.name, "question": question.name, "answers": answer.name}
        patterns = {"answer_starts": names.STARTS, "impossible": names.IMPOSSIBLE}
        optional = {
            role: name
            for role, pattern in patterns.items()
            for name in roles.columns
            if pattern.fullmatch(name.replace(".", "_"))
        }
        score = NAMED + NAME_BONUS * bool(named)
        yield Reading("extractive", found, score, optional=optional)


def _pairs(roles: TableRoles) -> Iterator[Reading]:
    """Two texts with a label or a score."""
    for first, second in combinations(roles.texts, 2):
        is_named = names.are_a_pair(first.name, second.name)
        if is_named:
            score = NAMED
        elif names.HEADLINE.fullmatch(first.name) or names.HEADLINE.fullmatch(second.name):
            score = POSSIBLE
        else:
            score = FITS if len(roles.texts) == 2 else POSSIBLE
        pair = {"first": first.name, "second": second.name}
        for label in roles.labels:
            bonus = NAME_BONUS * bool(names.LABEL.fullmatch(label.name))
            yield Reading("pairs", {**pair, "label": label.name}, score + bonus)
            if label.is_ordinal:
                yield _similarity(pair, label, score + bonus - NAME_BONUS)
        for number in roles.numbers:
            if are_alike_in_length(first, second):
                yield _similarity(pair, number, score + _score_bonus(number) + 0.5)


def _similarity(pair: Mapping[str, str], number: ColumnProfile, score: float) -> Reading:
    low, high = number.numbers or (0.0, 1.0)
    settings = {"min_score": min(0.0, low), "max_score": _round_up(high)}
    return Reading("similarity", {**pair, "score": number.name}, score, settings)


def _round_up(high: float) -> float:
    """The end of a scale from its largest value: 0.98 is of 1, 4.8 of 5."""
    return next((float(end) for end in (1, 2, 3, 4, 5, 6, 7, 10, 100) if high <= end), high)


def _single_texts(roles: TableRoles) -> Iterator[Reading]:
    """A text with a label or a number."""
    for text in roles.texts:
        score = FITS + 1.0 - _other_texts(roles, text)
        for label in roles.labels:
            bonus = NAME_BONUS * bool(names.LABEL.fullmatch(label.name))
            is_score = bool(names.SCORE.fullmatch(label.name))
            columns = {"text": text.name, "label": label.name}
            yield Reading("classification", columns, score + max(bonus, 1.5 * is_score))
            if label.is_ordinal:
                columns = {"text": text.name, "score": label.name}
                ordinal = score - 1.0 + NAME_BONUS * is_score
                yield Reading("regression", columns, ordinal)
        for number in roles.numbers:
            columns = {"text": text.name, "score": number.name}
            yield Reading("regression", columns, score - 1.0 + _score_bonus(number))


def _score_bonus(number: ColumnProfile) -> float:
    """A name that says so; many different whole numbers are more often a count than a score."""
    return NAME_BONUS * bool(names.SCORE.fullmatch(number.name)) - 1.0 * number.are_whole


def _other_texts(roles: TableRoles, text: ColumnProfile) -> float:
    """How much less likely a text is for the better ones beside it."""
    if names.HEADLINE.fullmatch(text.name) and len(roles.texts) > 1:
        return HEADLINE_PENALTY
    others = [one for one in roles.texts if one.name != text.name]
    is_longest = all(one.mean_words <= text.mean_words for one in others)
    is_named = bool(names.TEXT.fullmatch(text.name))
    return (1.0 if others else 0.0) + (0.0 if is_longest else 1.0) - (0.5 if is_named else 0.0)


def _targets(roles: TableRoles) -> Iterator[Reading]:
    """A text and another that is its translation, summary or answer."""
    texts = [*roles.texts, *roles.lists]
    is_alone = len(texts) == 2 and not roles.labels and not roles.numbers
    for one, other in combinations(texts, 2):
        yield from pair_of_texts(one, other, roles.sample(one.name, other.name), is_alone=is_alone)
    answers = [*roles.categories, *roles.texts]
    for question in roles.texts:
        rate = question_rate(roles.columns[question.name])
        for answer in answers:
            if answer.name == question.name or rate < MIN_RATE:
                continue
            if answer.mean_words < question.mean_words and answer.mean_words <= 5:
                columns = {"question": question.name, "answer": answer.name}
                yield Reading("recall", columns, FITS + 0.5)


def _language_models(roles: TableRoles) -> Iterator[Reading]:
    only = len(roles.profiles) == 1
    for text in roles.texts:
        score = FALLBACK + (NAMED if only else 0.0) - _other_texts(roles, text) / 2
        yield Reading(LANGUAGE_MODEL, {"text": text.name}, score)
