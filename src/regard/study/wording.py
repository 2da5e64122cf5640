"""How figures are written for people: numbers, intervals, durations, and the names of things."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

PARTS = {
    "test": "test set",
    "dev": "dev set",
    "train": "training set, evaluated after training",
}
"In the order in which a reader wants them: what was never trained or tuned on comes first."

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


def number(value: float | None) -> str:
    """Four significant digits or the whole part: 2.345, 118.4, 1,235."""
    if value is None:
        return ABSENT
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    decimals = next((d for limit, d in ((10, 3), (100, 2), (1000, 1)) if size < limit), 0)
    return f"{value:,.{decimals}f}".replace("-", "−")


def interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def count(value: float | None) -> str:
    return ABSENT if value is None else f"{value:,.0f}"


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
    return PARTS.get(name, name)


def metric(name: str) -> str:
    return METRICS.get(name, name.replace("_", " "))


def dropped(why: str) -> str:
    return DROPPED.get(why, why)


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
