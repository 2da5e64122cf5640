"""A metric: per-item statistics, and scores as functions of their sums.

    score = score_function(Σ statistics over items)

One table of per-item statistics therefore serves the score, its bootstrap interval, the paired
difference of two models on the same items, and `method_difference` over seeds. Proportions of
items have Wilson's interval; every other score is bootstrapped over items.

Shapes: c statistics, n items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from regard.core.catalog import Catalog
from regard.core.errors import UserError, did_you_mean
from regard.evaluation.statistics.baseline_verdict import BaselineVerdict
from regard.evaluation.statistics.estimate import Estimate, signature
from regard.evaluation.statistics.intervals import Bootstrap, ItemStatistics, wilson
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values, ratio

Row: TypeAlias = Mapping[str, Any]
"One item as stored in items/<split>.jsonl: plain JSON values."

Interval: TypeAlias = tuple[float, float] | None

METRICS = Catalog("metric", home="regard.evaluation.metrics")

UNBOUNDED = float("inf")
MIN_ITEMS = 20
"Minimum items for a verdict: a bootstrap over fewer gives too narrow an interval."
"Replaces the verdict where something was tuned by the very score that is compared."


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """The scores of a task, and how they are computed from its rows."""

    kind: ClassVar[str]
    "Its name in the catalogue and in results.json."
    score_names: ClassVar[tuple[str, ...]]
    "The main score first."
    lower_is_better: ClassVar[tuple[str, ...]] = ()
    "Scores of which less is better; of all others more is better."
    score_bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}
    "Smallest and largest possible score; scores not listed lie between 0 and 1."
    truth: ClassVar[str] = "truth"
    "The field that must be equal in two rows before they are paired."
    has_independent_items: ClassVar[bool] = True
    "Whether an item's statistics are the same whatever the other items are; ranks are not."

    items: str
    "What n counts, in the plural."

    @abstractmethod
    def statistics(self, rows: Sequence[Row]) -> Values:
        """Per-item statistics (c, n): what each item adds to the sums."""

    @abstractmethod
    def score_function(self, score_name: str) -> ScoreFunction:
        """Sums of the statistics (c, …) to the score (…)."""

    def is_correct(self, row: Row) -> bool | None:
        """Whether the answer is correct; None where answers are graded, as translations are."""
        return None

    def count_index(self, score_name: str) -> int | None:
        """Index of the statistic that is 1 for items the score counts; None if it counts all."""
        return None

    def higher_is_better(self, score_name: str) -> bool:
        return score_name not in self.lower_is_better

    def bounds(self, score_name: str) -> tuple[float, float]:
        """The smallest and the largest possible score."""
        return self.score_bounds.get(score_name, (0.0, 1.0))

    def is_proportion(self, score_name: str) -> bool:
        """Whether the score is a proportion of items, so that Wilson's interval applies."""
        return False

    def needs_same_tokens(self, score_name: str) -> bool:
        """Whether two models compare only on the same tokens, not merely on the same items."""
        return False

    def facts(self, score_name: str, rows: Sequence[Row]) -> dict[str, object]:
        """What else decides the value, for the signature."""
        return {}

    def settings(self) -> dict[str, Any]:
        """Plain values for JSON, from which `build_metric` rebuilds the metric."""
        plain = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }
        return {"kind": self.kind} | plain

    def check_name(self, score_name: str) -> str:
        """Return the name; raise if this metric has no score of that name."""
        if score_name not in self.score_names:
            suggestion = did_you_mean(score_name, self.score_names)
            raise UserError(
                f"{self.kind} has no score {score_name}{suggestion}", topic="evaluation"
            )
        return score_name


class RatioMetric(Metric):
    """Every score is the ratio of two sums."""

    ratios: ClassVar[Mapping[str, tuple[int, int]]]
    "By score, the main one first: indices of the statistic summed and of the one that counts."

    def __init_subclass__(cls) -> None:
        cls.score_names = tuple(cls.ratios)

    def score_function(self, score_name: str) -> ScoreFunction:
        return ratio_score(*self.ratios[self.check_name(score_name)])

    def count_index(self, score_name: str) -> int | None:
        return self.ratios[self.check_name(score_name)][1]


AnyMetric = TypeVar("AnyMetric", bound=type[Metric])


def metric_kind(
    name: str,
    *,
    perfect: Sequence[Row],
    bad: Sequence[Row],
    settings: Mapping[str, Any] | None = None,
) -> Callable[[AnyMetric], AnyMetric]:
    """Decorator: register a metric in the catalogue.

    `perfect` and `bad` are rows of the same items: with the best answers possible, and with ones
    that every score rates lower. The contract tests score both. `settings` are example values of
    the fields that have no default."""

    def register(cls: AnyMetric) -> AnyMetric:
        cls.kind = name
        return METRICS.add(name, perfect=perfect, bad=bad, settings=settings or {})(cls)

    return register


def is_lower_better(score_name: str) -> bool:
    """Whether less of this score is better, by the metric of the catalogue that declares it."""
    return any(score_name in getattr(one.part, "lower_is_better", ()) for one in METRICS)


def build_metric(settings: Mapping[str, Any]) -> Metric:
    """Rebuild a metric from its `settings`."""
    kind = str(settings.get("kind", ""))
    fields = {name: value for name, value in settings.items() if name != "kind"}
    part: Callable[..., Metric] = METRICS.get(kind).part
    try:
        return part(**fields)
    except TypeError as error:
        raise UserError(
            f"metric {kind} cannot be built from {', '.join(fields) or 'nothing'}",
            topic="evaluation",
            hint="The file was written by another version of regard, or edited.",
        ) from error


def score(
    metric: Metric, rows: Sequence[Row], *, split: str, bootstrap: Bootstrap | None = None
) -> list[Estimate]:
    """Estimates of all scores that have items, the main one first."""
    bootstrap = bootstrap or Bootstrap()
    rows = _by_item(_not_empty(rows, split))
    table = metric.statistics(rows)
    estimates = []
    for score_name in metric.score_names:
        counted = _counted_items(table, metric.count_index(score_name))
        n = counted.shape[1]
        if not n:
            continue
        score_function = metric.score_function(score_name)
        value = float(score_function(counted.sum(axis=1)))
        interval: Interval
        if metric.is_proportion(score_name):
            interval = wilson(round(value * n), n, confidence=bootstrap.confidence)
            method = f"wilson-{100 * bootstrap.confidence:.4g}%"
        else:
            interval, method = _interval(counted, score_function, bootstrap), str(bootstrap)
        facts = {"split": split} | metric.facts(score_name, rows) | {"interval": method}
        estimates.append(
            _estimate(score_name, metric, value=value, interval=interval, n=n, facts=facts)
        )
    return estimates


def paired_difference(
    metric: Metric,
    score_name: str,
    ours: Sequence[Row],
    theirs: Sequence[Row],
    *,
    split: str,
    bootstrap: Bootstrap | None = None,
) -> Estimate:
    """Our score minus theirs, with a paired bootstrap over the same items."""
    bootstrap = bootstrap or Bootstrap()
    score_function = metric.score_function(metric.check_name(score_name))
    count_index = metric.count_index(score_name)
    ours, theirs = _paired(metric, _not_empty(ours, split), _not_empty(theirs, split), split=split)
    tables = [metric.statistics(rows) for rows in (ours, theirs)]
    counts = [
        table[count_index] if count_index is not None else np.ones(len(ours)) for table in tables
    ]
    if not np.array_equal(counts[0], counts[1]) or not counts[0].any():
        raise UserError(
            f"{score_name} does not count the same {metric.items} of ours "
            f"({counts[0].sum():,.0f}) and of theirs ({counts[1].sum():,.0f}), or counts none",
            topic="comparison",
            where=split,
            hint="A difference needs the same items on both sides, and at least one.",
        )
    first, second = (_counted_items(table, count_index) for table in tables)
    width, stacked = len(first), np.concatenate([first, second])

    def difference(sums: Values) -> Values:
        return np.asarray(score_function(sums[:width]) - score_function(sums[width:]))

    return _estimate(
        f"{score_name}_difference",
        metric,
        value=float(difference(stacked.sum(axis=1))),
        interval=_interval(stacked, difference, bootstrap),
        n=stacked.shape[1],
        facts={"split": split} | metric.facts(score_name, ours) | {"interval": str(bootstrap)},
    )


def difference_verdict(difference: Estimate, *, higher_is_better: bool) -> BaselineVerdict:
    """What a difference says of our score; no verdict without an interval or on few items."""
    if difference.n < MIN_ITEMS:
        return BaselineVerdict.TOO_FEW
    if difference.low is None or difference.high is None or difference.low <= 0 <= difference.high:
        return BaselineVerdict.NOT_DISTINGUISHABLE
    is_better = (difference.low > 0) == higher_is_better
    return BaselineVerdict.BETTER if is_better else BaselineVerdict.BEHIND


def ratio_score(top: int, bottom: int) -> ScoreFunction:
    """Ratio of two sums: a mean, where the second statistic counts items."""

    def score_function(sums: Values) -> Values:
        return ratio(sums[[top, bottom]])

    return score_function


def _estimate(
    name: str,
    metric: Metric,
    *,
    value: float,
    interval: Interval,
    n: int,
    facts: Mapping[str, object],
) -> Estimate:
    low, high = interval or (None, None)
    facts = facts if interval else {**facts, "interval": "none"}
    return Estimate(
        name=name,
        value=value,
        low=low,
        high=high,
        n=n,
        items=metric.items,
        signature=signature(name, metric=metric.kind, **facts),
        no_interval="" if interval else "one item cannot show how items vary",
    )


def _interval(table: Values, score_function: ScoreFunction, bootstrap: Bootstrap) -> Interval:
    """Bootstrap interval of the score, items resampled."""
    n = table.shape[1]

    def resampled_score(item_numbers: ItemStatistics) -> Values:
        """(1, …, n) numbers of resampled items to (1, …) scores."""
        index = item_numbers[0].astype(np.int64)
        draws = index.reshape(-1, n)
        # Multiplicities of the items: all sums are then one matrix product.
        offset = draws + n * np.arange(len(draws))[:, None]
        multiplicity = np.bincount(offset.ravel(), minlength=draws.size).reshape(draws.shape)
        sums = (table @ multiplicity.T.astype(np.float64)).reshape(len(table), *index.shape[:-1])
        return np.asarray(score_function(sums)[None])

    [interval] = bootstrap.intervals(np.arange(n, dtype=np.float64)[None], resampled_score)
    return interval


def _counted_items(table: Values, count_index: int | None) -> Values:
    # Other items would only add resamples in which the score has nothing to count.
    return table if count_index is None else table[:, table[count_index] > 0]


def _not_empty(rows: Sequence[Row], split: str) -> Sequence[Row]:
    if not rows:
        raise UserError(
            "there is nothing to score",
            topic="evaluation",
            where=split,
            hint="Give at least one item.",
        )
    return rows


def _by_item(rows: Sequence[Row]) -> Sequence[Row]:
    """Sorted by item number, so that file order does not change a bootstrap interval."""
    if not all("item" in row for row in rows):
        return rows
    return sorted(rows, key=lambda row: int(row["item"]))


def _paired(
    metric: Metric, ours: Sequence[Row], theirs: Sequence[Row], *, split: str
) -> tuple[Sequence[Row], Sequence[Row]]:
    """Both sides in one order of items; raises where items or their truths differ."""

    def error(what: str) -> UserError:
        return UserError(
            what,
            topic="comparison",
            where=split,
            hint="Scores on different items are not compared: evaluate both on one split.",
        )

    sides = []
    for name, rows in (("ours", ours), ("theirs", theirs)):
        by_number = {row["item"]: row for row in rows if "item" in row}
        if len(by_number) < len(rows):
            raise error(f"{name}: an item has no number, or the number of another")
        sides.append(by_number)
    first, second = sides
    if first.keys() != second.keys():
        shared = len(first.keys() & second.keys())
        raise error(
            f"{len(first):,} {metric.items} of ours, {len(second):,} of theirs, {shared:,} in both"
        )
    order = sorted(first)
    for item in order:
        if first[item].get(metric.truth) != second[item].get(metric.truth):
            raise error(f"item {item} has another {metric.truth} in ours than in theirs")
    return [first[item] for item in order], [second[item] for item in order]
