"""How figures are written for people: numbers, intervals, durations, and the names of things."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from regard.evaluation.statistics.estimate import decimals_shown

PARTS = {
    "test": "test set",
    "dev": "dev set",
    "train": "training set, evaluated after training",
}

METRICS = {
    "perplexity": "perplexity per token",
    "perplexity_per_byte": "perplexity per byte",
    "bits_per_byte": "bits per byte",
    "loss_per_document": "loss per document, nats",
}

DROPPED = {
    "empty": "empty rows",
    "bad": "bad rows",
    "without_tokens": "documents without a token",
}

ABSENT = "–"


def number(value: float | None, *, decimals: int | None = None, sign: str = "-") -> str:
    """By default four significant digits or the whole part: 2.345, 118.4, 1,235."""
    if value is None:
        return ABSENT
    if math.isnan(value):
        return "not a number"
    places = decimals_shown(value) if decimals is None else decimals
    return f"{value:{sign},.{places}f}".replace("-", "−").replace("inf", "∞")


def interval(low: float | None, high: float | None, *, beside: float) -> str:
    """`[913.1, 1,001.2]`, with the decimals of the value it stands beside."""
    if low is None or high is None:
        return ""
    decimals = decimals_shown(beside)
    return f"[{number(low, decimals=decimals)}, {number(high, decimals=decimals)}]"


def difference(value: float, low: float | None, high: float | None, *, decimals: int) -> str:
    """`−1.9 [−6.0, +2.2]`; with more decimals where one would read as nought and is not."""
    shown = [end for end in (value, low, high) if end is not None]
    # One digit of the smallest is enough to see on which side of nought it lies.
    small = [abs(end) for end in shown if 0 < abs(end) < 0.5 * 10.0**-decimals]
    places = max([decimals, *(min(math.ceil(-math.log10(end)), 6) for end in small)])
    first, *ends = [number(end, decimals=places, sign="+") for end in shown]
    return f"{first} [{', '.join(ends)}]" if ends else first


def count(value: float | None) -> str:
    return ABSENT if value is None else f"{value:,.0f}"


def counted(n: int, items: str) -> str:
    """`904 documents`, `1 document`."""
    return f"{n:,} {items.removesuffix('s') if n == 1 else items}"


def share(value: float | None) -> str:
    """1.2 %, with enough digits that a small share does not read as none."""
    if value is None or math.isnan(value):
        return ABSENT
    percent = 100 * value
    if percent == 0 or percent >= 1:
        return f"{percent:.3g} %"
    return f"{percent:.2f} %" if percent >= 0.01 else "below 0.01 %"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ABSENT
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def moment(iso: str | None) -> str:
    """`15 November 2026, 20:04 UTC` for 2026-11-15T20:04:00Z; what is no time stays as it is."""
    if iso is None:
        return ABSENT
    try:
        then = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = f" {then.tzname()}" if then.tzinfo else ""
    return f"{then.day} {then:%B %Y, %H:%M}{zone}"


def memory(size: float | None) -> str:
    if size is None:
        return ABSENT
    for unit in ("bytes", "kB", "MB"):
        if size < 999.5:
            return f"{size:,.3g} {unit}" if unit != "bytes" else f"{size:.0f} bytes"
        size /= 1000
    return f"{size:,.2f} GB"


def part(name: str) -> str:
    """`test set`; a part that regard does not know keeps its name: `held-out set`."""
    return PARTS.get(name) or (name if name.endswith("set") else f"{name} set")


def in_reading_order(parts: Iterable[str]) -> list[str]:
    """Each part once: test, dev, parts that regard does not know, and last the training set."""
    # What was never trained or tuned on comes first; an unknown part was hardly trained on.
    place = {"test": 0, "dev": 1, "train": 3}
    return sorted(dict.fromkeys(parts), key=lambda name: place.get(name, 2))


def metric(name: str) -> str:
    return METRICS.get(name, name.replace("_", " "))


def dropped(why: str) -> str:
    return DROPPED.get(why, why)


def capitalised(text: str) -> str:
    """The first letter large, the others as they are."""
    return text[:1].upper() + text[1:]


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
