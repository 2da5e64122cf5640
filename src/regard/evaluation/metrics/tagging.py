"""Tagging: F1 of whole spans, and accuracy of single tags.

    span_f1     2 tp / (predicted + true spans)         a span counts if type, begin and end agree
    precision   tp / predicted        recall   tp / true        accuracy   right tags / words

Spans are read from BIO tags as conlleval and seqeval read them (`tag_spans`). Tags without a
prefix, such as parts of speech, are spans of one word: span_f1 is then their accuracy where no tag
is O.
Tjong Kim Sang and De Meulder, 2003, "Introduction to the CoNLL-2003 Shared Task".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from regard.evaluation.metrics.fields import field_error, texts
from regard.evaluation.metrics.metric import Metric, Row, metric_kind
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values, ratio

OUTSIDE = "O"
PREFIXES = ("B", "I", "E", "S")
"Begin, inside, end, single (BIO and BIOES)."

_RIGHT, _WORDS, _FOUND, _PREDICTED, _TRUE = range(5)


class TagSpan(NamedTuple):
    """A span of words; `end` is excluded."""

    type: str
    begin: int
    end: int


def tag_spans(tags: Sequence[str]) -> set[TagSpan]:
    """The spans of a sentence.

    B- and S- begin one; I- and E- go on with one of the same type, and begin one where there is
    none, as in IOB1."""
    spans = set()
    begin, kind, is_open = 0, "", False
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, type_ = _split(tag)
        goes_on = is_open and prefix in ("I", "E") and type_ == kind
        if is_open and not goes_on:
            spans.add(TagSpan(kind, begin, index))
        if not goes_on:
            begin, kind = index, type_
        is_open = tag != OUTSIDE
        if is_open and prefix in ("E", "S", ""):
            spans.add(TagSpan(kind, begin, index + 1))
            is_open = False
    return spans


def _split(tag: str) -> tuple[str, str]:
    """`B-PER` is B and PER; a tag without a prefix has an empty one."""
    prefix, separator, type_ = tag.partition("-")
    if prefix in PREFIXES and (separator or tag in ("B", "I")):
        return prefix, type_
    return "", tag


@metric_kind(
    "tagging",
    perfect=[
        {"predicted": tags, "truth": tags}
        for tags in ("B-PER I-PER O", "O B-LOC", "B-ORG O O", "O O B-PER")
    ],
    bad=[
        {"predicted": predicted, "truth": truth}
        for predicted, truth in (
            ("B-PER O O", "B-PER I-PER O"),
            ("O B-LOC", "O B-LOC"),
            ("O B-ORG O", "B-ORG O O"),
            ("B-LOC O B-PER", "O O B-PER"),
        )
    ],
)
@dataclass(frozen=True, kw_only=True)
class TaggingMetric(Metric):
    """Span F1 and accuracy of predicted tags.

    Uses the fields `truth` and `predicted`: the tags of a sentence, separated by spaces."""

    score_names: ClassVar = ("span_f1", "precision", "recall", "accuracy")

    items: str = "sentences"

    def is_correct(self, row: Row) -> bool:
        return bool(row["predicted"] == row["truth"])

    def statistics(self, rows: Sequence[Row]) -> Values:
        truths, predictions = texts(rows, "truth"), texts(rows, "predicted")
        table = np.zeros((5, len(rows)))
        for number, (truth, predicted) in enumerate(zip(truths, predictions, strict=True)):
            true, found = truth.split(), predicted.split()
            if len(true) != len(found):
                raise field_error(
                    rows, number, f"{len(found)} predicted tags for {len(true)} words"
                )
            true_spans, found_spans = tag_spans(true), tag_spans(found)
            table[:, number] = (
                sum(a == b for a, b in zip(true, found, strict=True)),
                len(true),
                len(true_spans & found_spans),
                len(found_spans),
                len(true_spans),
            )
        return table

    def score_function(self, score_name: str) -> ScoreFunction:
        functions: dict[str, ScoreFunction] = {
            "span_f1": _f1,
            "precision": lambda sums: _rate(sums[_FOUND], sums[_PREDICTED]),
            "recall": lambda sums: _rate(sums[_FOUND], sums[_TRUE]),
            "accuracy": lambda sums: ratio(sums[[_RIGHT, _WORDS]]),
        }
        return functions[self.check_name(score_name)]

    def why_no_interval(self, score_name: str, table: Values) -> str:
        if score_name == "accuracy" or table[_TRUE].any():
            return ""
        return f"none of the {self.items} has a span"


def _f1(sums: Values) -> Values:
    return _rate(2 * sums[_FOUND], sums[_PREDICTED] + sums[_TRUE])


def _rate(part: Values, whole: Values) -> Values:
    """0 where there is nothing to count."""
    return np.asarray(np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), 0.0))
