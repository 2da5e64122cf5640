"""Columns that say whose a row is: authors, documents, sources.

Rows of one author are alike in more than the label. Where an author has rows in training and in a
held-out split, a model can be right there by knowing the author; `data.group` keeps them together.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from regard.data.overlap.labels import MAX_LABELS, majority_labels
from regard.data.overlap.normalise import normalise
from regard.data.splits import as_text

MIN_GROUPS = 10
"With fewer groups no verdict over items is possible."
MIN_ROWS_PER_GROUP = 2
MAX_FRACTION = 0.5
"Of the rows, that may have the same value, or none."
MIN_GAIN = 0.05
"Accuracy on held-out rows by the column's value, over the most frequent label's."
MIN_DEVIATIONS = 3.0
GROUP_NAME = re.compile(
    r"(^|[\W_])(id|ids|author|user|writer|speaker|reviewer|annotator|worker|subject|patient|person"
    r"|document|doc|article|passage|paragraph|context|source|file|url|page|site|title|book|movie"
    r"|film|product|item|image|photo|video|session|dialogue|conversation|thread|group|cluster"
    r"|family|parent)([\W_]|$)",
    re.IGNORECASE,
)
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d.*)?")


@dataclass(frozen=True)
class StraddlingColumn:
    """A column whose values are in training and in a held-out split."""

    column: str
    values: int
    "Distinct values on both sides."
    rows: int
    "Held-out rows with such a value."
    held_out_rows: int
    accuracy: float | None
    "On these rows, by the most frequent training label of the value; None without labels."
    majority: float | None
    "On these rows, by the most frequent training label."


def likely_group_columns(
    columns: Mapping[str, Sequence[Any]], *, label: str | None = None
) -> list[str]:
    """Columns that look like an author, document or source: many values, each in several rows.

    The likeliest first: by a name that says so, then by the number of values.
    """
    likely = []
    for name, values in columns.items():
        same_as_label = label is not None and _one_to_one(values, columns[label])
        if name != label and not same_as_label and _looks_like_group(name, values):
            likely.append(name)
    return sorted(
        likely, key=lambda name: (not GROUP_NAME.search(name), -len(set(map(str, columns[name]))))
    )


def straddling_columns(
    columns: Mapping[str, Sequence[Any]],
    splits: Sequence[str],
    labels: Sequence[Any] | None = None,
    *,
    inputs: Collection[str] = (),
) -> list[StraddlingColumn]:
    """Likely group columns with values in train and elsewhere, if these predict the label.

    Without labels, or with free text for a label, straddling is enough. `inputs` are columns of
    which each is one of a row's several texts: one that stands in training beside other texts may
    bring its label along, in however few rows.
    """
    found = []
    classes = _classes(labels)
    for name in dict.fromkeys([*likely_group_columns(columns), *(inputs if classes else ())]):
        values = list(map(as_text, columns[name]))
        if name in inputs:
            values = list(map(normalise, values))
        if classes and _one_to_one(values, classes):
            continue
        rows = {
            train: [
                row
                for row, split in enumerate(splits)
                if (split == "train") is train and values[row].strip()
            ]
            for train in (True, False)
        }
        known = {values[row] for row in rows[True]}
        shared = [row for row in rows[False] if values[row] in known]
        if not shared:
            continue
        accuracy = majority = None
        if classes:
            trained = [classes[row] for row in rows[True]]
            by_value = majority_labels([values[row] for row in rows[True]], trained)
            frequent = Counter(trained).most_common(1)[0][0]
            value_right = [by_value[values[row]] == classes[row] for row in shared]
            majority_right = [frequent == classes[row] for row in shared]
            if not _clearly_better(value_right, majority_right):
                continue
            accuracy = sum(value_right) / len(shared)
            majority = sum(majority_right) / len(shared)
        found.append(
            StraddlingColumn(
                name,
                values=len({values[row] for row in shared}),
                rows=len(shared),
                held_out_rows=sum(split != "train" for split in splits),
                accuracy=accuracy,
                majority=majority,
            )
        )
    return found


def _classes(labels: Sequence[Any] | None) -> list[str]:
    """The labels, measurements as below or above their median; empty if they are free text."""
    answers = [str(label) for label in labels or ()]
    if len(set(answers)) <= MAX_LABELS:
        return answers
    if not all(map(_is_number, set(answers))):
        return []
    middle = median(map(float, answers))
    return [str(float(answer) > middle) for answer in answers]


def _looks_like_group(name: str, values: Sequence[Any]) -> bool:
    if not all(value is None or isinstance(value, str | int | float) for value in values):
        return False
    if any(isinstance(value, float) and value % 1 for value in values if value == value):
        return False  # a measurement
    texts = [text for text in map(as_text, values) if text.strip()]
    counts = Counter(texts)
    named = GROUP_NAME.search(name) is not None
    # Without such a name a column of few values is a category.
    if len(counts) < max(MIN_GROUPS, 0 if named else math.sqrt(len(texts))):
        return False
    if len(texts) < MAX_FRACTION * len(values) or len(texts) < MIN_ROWS_PER_GROUP * len(counts):
        return False
    if counts.most_common(1)[0][1] > MAX_FRACTION * len(texts):
        return False
    if all(map(_is_number, counts)):
        return named  # else a measurement
    return not all(map(DATE.fullmatch, counts))


def _clearly_better(first: Sequence[bool], second: Sequence[bool]) -> bool:
    """By a paired test: the rows where only one is right."""
    gained = sum(a and not b for a, b in zip(first, second, strict=True))
    lost = sum(b and not a for a, b in zip(first, second, strict=True))
    difference = gained - lost
    if difference < MIN_GAIN * len(first):
        return False
    return difference >= MIN_DEVIATIONS * math.sqrt(gained + lost)


def _one_to_one(values: Sequence[Any], labels: Sequence[Any]) -> bool:
    pairs = {(str(value), str(label)) for value, label in zip(values, labels, strict=True)}
    return len(pairs) == len({value for value, _ in pairs}) == len({label for _, label in pairs})


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
