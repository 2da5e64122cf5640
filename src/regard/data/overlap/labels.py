"""Labels that contradict each other, and labels that stand in the row.

A giveaway decides the label alone: one word a label, or one character at an end of the text, or one
column, that is right in 99 % of rows of every label. It is chosen on one half of the rows and
measured on the other, so a word that happens to fit a few rows is none. An easy task is none
either: its label follows from many words.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from regard.data.overlap.normalise import normalise

MIN_ACCURACY = 0.99
MIN_ROWS = 20
"Rows of each label on which a giveaway is measured; labels with fewer are left out."
MIN_INFORMEDNESS = 0.9
"Fraction of a label's rows with a word, less that of the other rows, for it to be tried."
MAX_LABELS = 64
MAX_ROWS = 20_000

FeatureKind = Literal["word", "first word", "last word", "first character", "last character"]
Feature = tuple[FeatureKind, str]


@dataclass(frozen=True)
class LabelConflict:
    """Rows of the same normalised text whose labels differ."""

    rows: tuple[int, ...]
    labels: tuple[str, ...]
    "Of these rows, in their order."


@dataclass(frozen=True)
class Giveaway:
    """What decides the label alone."""

    kind: FeatureKind | Literal["column"]
    name: str
    "The column; for words the column of the text."
    words: Mapping[str, str]
    "Label → the word or character of its rows; one label may have none. Empty for a column."
    accuracy: float
    rows: int
    "On which the accuracy was measured."
    is_of_one_label: bool = False
    "Whether it decides one label of several alone, and says nothing of the others."


def conflicting_labels(texts: Sequence[str], labels: Sequence[Any]) -> list[LabelConflict]:
    """Every text that has several labels, in the order of first rows."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(texts):
        rows[normalise(text)].append(row)
    return [
        LabelConflict(tuple(same), tuple(str(labels[row]) for row in same))
        for text, same in rows.items()
        if text and len({str(labels[row]) for row in same}) > 1
    ]


def respelled_labels(labels: Iterable[str]) -> list[list[str]]:
    """Labels that differ in case or in how a number is written alone, together."""
    spellings: dict[str | float, set[str]] = defaultdict(set)
    for label in {label.strip() for label in labels}:
        spellings[_spoken(label)].add(label)
    return sorted(sorted(each) for each in spellings.values() if len(each) > 1)


def _spoken(label: str) -> str | float:
    try:
        number = float(label)
    except ValueError:
        return normalise(label)
    return number if math.isfinite(number) else label


def swapped_pairs(
    pairs: Sequence[tuple[str, str]], others: Iterable[tuple[str, str]]
) -> dict[int, int]:
    """Which pairs stand among the others with their sides swapped, and not as they are; each with
    the number of the first such other."""
    known: dict[tuple[str, str], int] = {}
    for number, (first, second) in enumerate(others):
        known.setdefault((normalise(first), normalise(second)), number)
    found = {}
    for number, (first, second) in enumerate(pairs):
        pair = normalise(first), normalise(second)
        if pair not in known and pair[::-1] in known:
            found[number] = known[pair[::-1]]
    return found


def label_giveaways(columns: Mapping[str, Sequence[Any]], labels: Sequence[Any]) -> list[Giveaway]:
    """The columns that a model reads and whose values, or single words, decide the label."""
    answers = [str(label) for label in labels]
    rows = [int(row) for row in np.random.default_rng(0).permutation(len(answers))[:MAX_ROWS]]
    counts = Counter(answers[row] for row in rows[1::2])
    known = {label for label, count in counts.items() if count >= MIN_ROWS}
    known &= {answers[row] for row in rows[::2]}
    if not 2 <= len(known) <= MAX_LABELS:
        return []
    seen, measured = (
        [row for row in half if answers[row] in known] for half in (rows[::2], rows[1::2])
    )
    found = []
    for name, values in columns.items():
        giveaway = _column_giveaway(name, values, answers, seen, measured)
        found.append(giveaway or _word_giveaway(name, values, answers, seen, measured))
    return [giveaway for giveaway in found if giveaway]


def _column_giveaway(
    name: str, values: Sequence[Any], labels: Sequence[str], seen: list[int], measured: list[int]
) -> Giveaway | None:
    """By the most frequent label of the same value; values that were not seen are wrong."""
    frequent = majority_labels([str(values[row]) for row in seen], [labels[r] for r in seen])
    predicted = [frequent.get(str(values[row])) for row in measured]
    accuracy = _accuracy_if_decided(predicted, [labels[row] for row in measured])
    return Giveaway("column", name, {}, accuracy, len(measured)) if accuracy else None


def majority_labels(values: Sequence[Hashable], labels: Sequence[str]) -> dict[Hashable, str]:
    """The most frequent label of each value."""
    counts: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for value, label in zip(values, labels, strict=True):
        counts[value][label] += 1
    return {value: count.most_common(1)[0][0] for value, count in counts.items()}


def _word_giveaway(
    name: str, values: Sequence[Any], labels: Sequence[str], seen: list[int], measured: list[int]
) -> Giveaway | None:
    """By one word a label; a row with none has the label that has no word."""
    texts = {row: values[row] for row in (*seen, *measured) if isinstance(values[row], str)}
    if len(texts) < len(seen) + len(measured):
        return None
    features = {row: _features(text) for row, text in texts.items()}
    sizes = Counter(labels[row] for row in seen)
    counts: dict[str, Counter[Feature]] = {label: Counter() for label in sizes}
    for row in seen:
        counts[labels[row]].update(features[row])
    total = sum(counts.values(), Counter())
    for kind in get_args(FeatureKind):
        words = {}
        for label, size in sizes.items():
            others = len(seen) - size
            informedness = {
                word: count / size - (total[kind_of, word] - count) / others
                for (kind_of, word), count in counts[label].items()
                if kind_of == kind
            }
            word = max(sorted(informedness), key=informedness.__getitem__, default="")
            if informedness.get(word, 0.0) >= MIN_INFORMEDNESS:
                words[label] = word
        without = set(sizes) - set(words)
        default = next(iter(without)) if len(without) == 1 else None
        predicted = []
        for row in measured:
            found = [label for label, word in words.items() if (kind, word) in features[row]]
            predicted.append(found[0] if len(found) == 1 else None if found else default)
        accuracy = _accuracy_if_decided(predicted, [labels[row] for row in measured])
        if accuracy:
            return Giveaway(kind, name, words, accuracy, len(measured))
        for label, word in words.items():
            has_word = [str((kind, word) in features[row]) for row in measured]
            is_label = [str(labels[row] == label) for row in measured]
            if accuracy := _accuracy_if_decided(has_word, is_label):
                one = {label: word}
                return Giveaway(kind, name, one, accuracy, len(measured), is_of_one_label=True)
    return None


def _features(text: str) -> set[Feature]:
    """The words of a text, normalised and as they stand, its first and last word and character."""
    plain, typed = normalise(text).split(), text.casefold().split()
    features: set[Feature] = {("word", word) for word in (*plain, *typed)}
    for words in (plain, typed):
        if words:
            features |= {("first word", words[0]), ("last word", words[-1])}
    if typed:
        features |= {("first character", typed[0][0]), ("last character", typed[-1][-1])}
    return features


def _accuracy_if_decided(predicted: Sequence[str | None], labels: Sequence[str]) -> float | None:
    """The accuracy, if it is high enough in the rows of every label."""
    right = Counter(label for each, label in zip(predicted, labels, strict=True) if each == label)
    sizes = Counter(labels)
    if any(right[label] < MIN_ACCURACY * size for label, size in sizes.items()):
        return None
    return sum(right.values()) / len(labels)
