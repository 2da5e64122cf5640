"""An estimate: a value together with its confidence interval, its n and its signature.

    118.4 [113.9, 123.2], n = 2,104 documents

The signature says in one line what was estimated and how, so that users and programs can check
whether two values are comparable (after sacreBLEU; Post, 2018):

    perplexity|per:token|tokenizer:3f9c21aa|split:dev:77abf00d|interval:bootstrap-…|regard:0.1.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value with its interval, or with the reason why it has none."""

    name: str
    value: float
    low: float | None
    high: float | None
    n: int
    items: str
    "What n counts, in the plural: documents, questions, seeds."
    signature: str
    no_interval: str = ""
    "Why there is no interval; empty where there is one."

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"{self.name}: an estimate needs at least one item, got n = {self.n}")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"{self.name}: an interval has two bounds or none")
        if (self.low is None) != bool(self.no_interval):
            raise ValueError(f"{self.name}: give an interval, or the reason why there is none")

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `no_interval` only where it is not empty."""
        plain: dict[str, Any] = {
            "name": self.name,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "items": self.items,
            "signature": self.signature,
        }
        return plain | {"no_interval": self.no_interval} if self.no_interval else plain

    def with_interval(self) -> str:
        """`118.4 [113.9, 123.2]`, to four significant digits of the value."""
        decimals = decimals_shown(self.value)
        value = f"{self.value:,.{decimals}f}"
        if self.low is None or self.high is None:
            return value
        return f"{value} [{self.low:,.{decimals}f}, {self.high:,.{decimals}f}]"

    def __str__(self) -> str:
        items = self.items.removesuffix("s") if self.n == 1 else self.items
        reason = f" (no interval: {self.no_interval})" if self.no_interval else ""
        return f"{self.with_interval()}, n = {self.n:,} {items}{reason}"


def decimals_shown(value: float) -> int:
    """Decimals that show four significant digits: 118.4, 4.732, 0.8214, 12,346."""
    if not math.isfinite(value):
        return 1
    if value == 0:  # the bounds of its interval are not zero
        return 3
    return min(6, max(0, 3 - math.floor(math.log10(abs(value)))))


def signature(name: str, /, **facts: object) -> str:
    """`name|fact:value|…|regard:version`, facts in the order given."""
    fields = [name, *(f"{fact}:{value}" for fact, value in facts.items()), f"regard:{_version()}"]
    # The bar separates facts, so a value such as "a|b" must not contain one.
    return "|".join(field.replace("|", "/") for field in fields)


@cache
def _version() -> str:
    try:
        return version("regard")
    except PackageNotFoundError:  # a source tree that was never installed
        return "source"
