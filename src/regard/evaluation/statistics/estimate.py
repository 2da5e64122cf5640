"""An estimate: a value together with its confidence interval, its n and its signature.

    118.4 [113.9, 123.2], n = 2,104 documents

The signature says in one line what was estimated and how, so that users and programs can check
whether two values are comparable (after sacreBLEU; Post, 2018):

    perplexity|per:token|tokenizer:3f9c21aa|split:dev:77abf00d|interval:bootstrap-…|regard:0.1.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from regard.evaluation.formatting import quantity, sample_size, with_interval


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
    groups: int | None = None
    "Number of groups of items that were resampled whole; None where every item stands alone."
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

    @classmethod
    def over_items(
        cls,
        name: str,
        value: float,
        interval: tuple[float, float] | None,
        *,
        n: int,
        items: str,
        groups: int | None = None,
        method: object,
        facts: Mapping[str, object],
        why_none: str = "",
    ) -> Estimate:
        """An estimate whose interval resamples its items, or whole groups of them: None where there
        is only one item, or where there are too few groups, or for the reason in `why_none`.

        `facts` and the `method` that gave the interval are the facts of the signature."""
        low, high = interval or (None, None)
        by_group, too_few = method, "one item cannot show how items vary"
        if groups is not None:
            by_group = f"{method}-by-group"
            too_few = f"{quantity(groups, 'groups')} cannot show how groups vary"
        return cls(
            name=name,
            value=float(value),
            low=low,
            high=high,
            n=n,
            items=items,
            groups=groups,
            signature=signature(name, **facts, interval=by_group if interval else "none"),
            no_interval="" if interval else why_none or too_few,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `no_interval` only where it is not empty."""
        plain = asdict(self)
        if not self.no_interval:
            del plain["no_interval"]
        return plain

    def __str__(self) -> str:
        """`118.4 [113.9, 123.2], n = 2,104 documents`"""
        reason = f" (no interval: {self.no_interval})" if self.no_interval else ""
        return f"{with_interval(self)}, n = {sample_size(self.n, self.items, self.groups)}{reason}"


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
