"""How a model stands against its baselines, in words that are also true when it is behind.

Lower is better for every figure here. Intervals that do not touch tell two figures apart; where
they overlap, nothing is claimed: that calls for a paired comparison on the same items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from regard.study.record import Figure
from regard.study.wording import PARTS, count, interval, listed, number

MODEL = "model"


class Standing(StrEnum):
    AHEAD = "ahead of"
    BEHIND = "behind"
    NOT_TOLD_APART = "not told apart from"
    NOT_COMPARABLE = "not comparable with"


@dataclass(frozen=True)
class Comparison:
    model: Figure
    baseline: Figure

    @property
    def standing(self) -> Standing:
        model, baseline = self.model, self.baseline
        if (model.n, model.items) != (baseline.n, baseline.items):
            return Standing.NOT_COMPARABLE
        if math.isnan(model.value) or math.isnan(baseline.value):
            return Standing.NOT_COMPARABLE
        if _high(model) < _low(baseline):
            return Standing.AHEAD
        if _low(model) > _high(baseline):
            return Standing.BEHIND
        return Standing.NOT_TOLD_APART

    @property
    def sentence(self) -> str:
        """`Kneser-Ney 3-gram: 104.1 [100.2, 108.3]; the model's is 14 % higher.`"""
        model, baseline = self.model, self.baseline
        start = f"{baseline.of}: {_with_interval(baseline)}"
        match self.standing:
            case Standing.NOT_COMPARABLE if math.isnan(model.value) or math.isnan(baseline.value):
                return f"{start}; a figure that is not a number compares with nothing."
            case Standing.NOT_COMPARABLE:
                theirs, ours = _items(baseline), _items(model)
                return f"{start}, measured on {theirs} where the model has {ours}."
            case Standing.NOT_TOLD_APART:
                overlap = "the intervals overlap"
                if baseline.low is None:
                    overlap = "it lies within the model's interval"
                difference = f"the model's is {relative(model.value, baseline.value)}"
                return f"{start}; {difference}, but {overlap}: not told apart."
            case _:
                return f"{start}; the model's is {relative(model.value, baseline.value)}."


@dataclass(frozen=True)
class Headline:
    """The model's figure on one part, and how it stands against each baseline there."""

    figure: Figure
    comparisons: tuple[Comparison, ...]

    @property
    def verdict(self) -> str:
        """`Ahead of the unigram; behind the Kneser-Ney 3-gram.`"""
        if math.isnan(self.figure.value):
            return "Not a number: this run broke, and its other figures mean nothing."
        if not self.comparisons:
            return "No baseline was measured, so nothing says whether this is good."
        grouped = {
            standing: [c.baseline.of for c in self.comparisons if c.standing is standing]
            for standing in Standing
        }
        clauses = [
            f"{standing} {listed(f'the {name}' for name in names)}"
            for standing, names in grouped.items()
            if names
        ]
        text = "; ".join(clauses)
        return f"{text[0].upper()}{text[1:]}."


def headlines(figures: Sequence[Figure], *, metric: str = "perplexity") -> list[Headline]:
    """One for each part the model was measured on, the part that is furthest from training first.

    Training-set figures head a report only where there is nothing else.
    """
    found = [
        Headline(figure, _against(figure, figures))
        for part in PARTS
        for figure in figures
        if (figure.part, figure.metric, figure.of) == (part, metric, MODEL)
    ]
    held_out = [headline for headline in found if headline.figure.part != "train"]
    return held_out or found


def relative(ours: float, theirs: float) -> str:
    """`14 % higher`, `71 % lower`, `3.5 times as high`: ours, seen from theirs."""
    if not (math.isfinite(ours) and math.isfinite(theirs)) or theirs <= 0:
        return f"{number(ours)} against {number(theirs)}"
    ratio = ours / theirs
    if ratio >= 2:
        return f"{ratio:.1f} times as high"
    percent = 100 * abs(ratio - 1)
    if percent < 0.1:
        return "the same within 0.1 %"
    shown = f"{percent:.1f}" if percent < 9.95 else f"{percent:.0f}"
    return f"{shown} % {'higher' if ratio > 1 else 'lower'}"


def _against(model: Figure, figures: Sequence[Figure]) -> tuple[Comparison, ...]:
    rivals = [f for f in figures if (f.part, f.metric) == (model.part, model.metric)]
    return tuple(Comparison(model, rival) for rival in rivals if rival.of != MODEL)


def _low(figure: Figure) -> float:
    return figure.value if figure.low is None else figure.low


def _high(figure: Figure) -> float:
    return figure.value if figure.high is None else figure.high


def _with_interval(figure: Figure) -> str:
    return f"{number(figure.value)} {interval(figure.low, figure.high)}".strip()


def _items(figure: Figure) -> str:
    return f"{count(figure.n)} {figure.items}"
