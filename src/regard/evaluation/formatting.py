"""Formatting for people: numbers, confidence intervals, counts, durations, labels of metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

SPLIT_LABELS = {
    "test": "test set",
    "dev": "dev set",
    "train": "training set, evaluated after training",
}

METRIC_LABELS = {
    "perplexity": "perplexity per token",
    "perplexity_per_byte": "perplexity per byte",
    "bits_per_byte": "bits per byte",
    "loss_per_document": "loss per document, nats",
}

DROP_REASONS = {
    "empty": "empty rows",
    "bad": "bad rows",
    "without_tokens": "documents without a token",
    "overlapping": "training rows that dev or test hold",
}

ABSENT = "–"
HOURS_SHOWN_AS_DAYS = 100
YEARS_SHOWN = 2
"From which on a duration is given in years alone."


def decimals_shown(value: float) -> int:
    """Decimals that show four significant digits, of a fraction three: 118.4, 4.732, 0.821."""
    if not math.isfinite(value):
        return 1
    if value == 0:  # the bounds of its interval are not zero
        return 3
    digits = 4 if abs(value) >= 1 else 3
    return min(6, max(0, digits - 1 - math.floor(math.log10(abs(value)))))


def number(value: float | None, *, decimals: int | None = None, sign: str = "-") -> str:
    """By default as `decimals_shown`, all integer digits of larger values: 2.345, 1,235, 0.821."""
    if value is None:
        return ABSENT
    if math.isnan(value):
        return "not a number"
    shown = decimals_shown(value) if decimals is None else decimals
    # Adding 0.0 removes the sign of a negative zero.
    rounded = round(float(value), shown) + 0.0
    return f"{rounded:{sign},.{shown}f}".replace("-", "−").replace("inf", "∞")


def interval(low: float | None, high: float | None, *, beside: float) -> str:
    """`[913.1, 1,001.2]`, with the decimals of the estimate `beside` it."""
    if low is None or high is None:
        return ""
    decimals = decimals_shown(beside)
    return f"[{number(low, decimals=decimals)}, {number(high, decimals=decimals)}]"


class Score(Protocol):
    """A value with the bounds of its interval, or without."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def with_interval(score: Score | None) -> str:
    """`138.3 [126.8, 150.7]`"""
    if score is None:
        return ABSENT
    return f"{number(score.value)} {interval(score.low, score.high, beside=score.value)}".strip()


def difference(value: float, low: float | None, high: float | None, *, decimals: int) -> str:
    """`−1.9 [−6.0, +2.2]`; with more decimals where a non-zero value would round to zero."""
    values = [one for one in (value, low, high) if one is not None]
    # One digit of the smallest shows its sign.
    small = [abs(one) for one in values if 0 < abs(one) < 0.5 * 10.0**-decimals]
    decimals = max([decimals, *(min(math.ceil(-math.log10(one)), 6) for one in small)])
    estimate, *bounds = [number(one, decimals=decimals, sign="+") for one in values]
    return f"{estimate} [{', '.join(bounds)}]" if bounds else estimate


def count(value: float | None) -> str:
    return ABSENT if value is None else f"{value:,.0f}"


def quantity(n: int, items: str) -> str:
    """`904 documents`, `1 document`."""
    return f"{n:,} {items.removesuffix('s') if n == 1 else items}"


def in_groups(groups: int | None) -> str:
    """` in 30 groups`; empty where every item stands alone."""
    return "" if groups is None else f" in {quantity(groups, 'groups')}"


def sample_size(n: int, items: str, groups: int | None = None) -> str:
    """`150 questions in 30 groups`, `904 documents`."""
    return quantity(n, items) + in_groups(groups)


def percent(value: float | None) -> str:
    """A fraction as `1.2 %`, with enough digits that a small one does not round to zero."""
    if value is None or math.isnan(value):
        return ABSENT
    points = 100 * value
    if points == 0 or points >= 1:
        return f"{points:.3g} %"
    return f"{points:.2f} %" if points >= 0.01 else "below 0.01 %"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ABSENT
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, days, years = minutes // 60, minutes // (60 * 24), minutes // (60 * 24 * 365)
    if hours < HOURS_SHOWN_AS_DAYS:
        return f"{hours:,} h {minutes % 60} min"
    return f"{days:,} days" if years < YEARS_SHOWN else f"{years:,} years"


def timestamp(iso: str | None) -> str:
    """`15 November 2026, 20:04 UTC` for 2026-11-15T20:04:00Z; other text is returned unchanged."""
    if iso is None:
        return ABSENT
    try:
        time = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = f" {time.tzname()}" if time.tzinfo else ""
    return f"{time.day} {time:%B %Y, %H:%M}{zone}"


def memory_size(size: float | None) -> str:
    if size is None:
        return ABSENT
    for unit in ("bytes", "kB", "MB"):
        if size < 999.5:
            return f"{size:,.3g} {unit}" if unit != "bytes" else f"{size:.0f} bytes"
        size /= 1000
    return f"{size:,.2f} GB" if size < 10_000 else f"{size / 1000:,.0f} TB"


def split_label(name: str) -> str:
    """`test set`; an unknown split keeps its name: `held-out set`."""
    return SPLIT_LABELS.get(name) or (name if name.endswith("set") else f"{name} set")


def order_splits(names: Iterable[str]) -> list[str]:
    """Each split once: test, dev, unknown splits, and the training set last."""
    # Least used for training and tuning first; an unknown split was hardly trained on.
    rank = {"test": 0, "dev": 1, "train": 3}
    return sorted(dict.fromkeys(names), key=lambda name: rank.get(name, 2))


def metric_label(name: str) -> str:
    return METRIC_LABELS.get(name, name.replace("_", " "))


def drop_reason(why: str) -> str:
    return DROP_REASONS.get(why, why)


def capitalise(text: str) -> str:
    """Upper-case first letter, the rest unchanged."""
    return text[:1].upper() + text[1:]


def p_value(p: float) -> str:
    return "below 0.0001" if p < 0.0001 else f"{p:.2g}"


def join_words(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
