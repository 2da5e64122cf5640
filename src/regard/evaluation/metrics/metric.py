"""A measure: how the items of a task become figures.

    value of a metric = statistic(Σ columns over items)

Each item gives a few numbers (`statistics`), a metric is a function of their sums (`score_function`). So
one table serves the value, its interval, the difference of two models on the same items, and
`method_difference` over seeds. Shares of items have Wilson's interval, all else is drawn anew.

Shapes: c columns, n items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from regard.core.errors import UserError, did_you_mean
from regard.evaluation.statistics.estimate import Estimate, signature
from regard.evaluation.statistics.intervals import Bootstrap, ItemStatistics, wilson
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values, ratio

Row: TypeAlias = Mapping[str, Any]
"One item as kept in items/<part>.jsonl: plain JSON values."

Interval: TypeAlias = tuple[float, float] | None

LOWER_IS_BETTER = (
    *("perplexity", "perplexity_per_byte", "bits_per_byte", "loss_per_document"),
    "mean_squared_error",
)
"Of every metric there is; the others count what is right."
UNBOUNDED = float("inf")
BOUNDS: Mapping[str, tuple[float, float]] = {
    "perplexity": (1.0, UNBOUNDED),
    "perplexity_per_byte": (1.0, UNBOUNDED),
    "bits_per_byte": (0.0, UNBOUNDED),
    "loss_per_document": (0.0, UNBOUNDED),
    "mean_squared_error": (0.0, UNBOUNDED),
    "mcc": (-1.0, 1.0),
    "spearman": (-1.0, 1.0),
    "pearson": (-1.0, 1.0),
    "bleu": (0.0, 100.0),
    "chrf": (0.0, 100.0),
}
"Between which a metric can lie; the others are shares, 0 to 1."

MIN_ITEMS = 20
"A bootstrap of fewer items draws its interval too narrow; no verdict rests on it."
TUNED = "tuned on these rows, and not judged against"
"In the place of a verdict, where something was chosen by the very figure that is compared."


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """Which metrics a task has, and how they come from its rows."""

    kind: ClassVar[str]
    truth: ClassVar[str] = "truth"
    "The field that has to be the same in both of two rows that are compared."

    items: str
    "What n counts, in the plural."

    @property
    @abstractmethod
    def score_names(self) -> tuple[str, ...]:
        """Names, the main one first."""

    @abstractmethod
    def statistics(self, rows: Sequence[Row]) -> Values:
        """(c, n): what each item adds."""

    @abstractmethod
    def score_function(self, score_name: str) -> ScoreFunction:
        """Sums of the columns (c, …) to the metric (…)."""

    def is_correct(self, row: Row) -> bool | None:
        """Whether one answer is right; None where that is not the question, as of a translation."""
        return None

    def count_index(self, score_name: str) -> int | None:
        """The column that is 1 for the metric's own items; None where every item counts."""
        return None

    def higher_is_better(self, score_name: str) -> bool:
        return score_name not in LOWER_IS_BETTER

    def bounds(self, score_name: str) -> tuple[float, float]:
        """The least and the most that the metric can be."""
        return BOUNDS.get(score_name, (0.0, 1.0))

    def is_proportion(self, score_name: str) -> bool:
        """Whether the metric is a share of items that are right."""
        return False

    def needs_same_tokens(self, score_name: str) -> bool:
        """Whether two models have to have told the same tokens, and not only the same items."""
        return False

    def facts(self, score_name: str, rows: Sequence[Row]) -> dict[str, object]:
        """What else decides the value, for the signature."""
        return {}

    def settings(self) -> dict[str, Any]:
        """Plain values for JSON, from which `build_metric` builds the measure again."""
        plain = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }
        return {"kind": self.kind} | plain

    def check_name(self, score_name: str) -> str:
        """The metric itself, refused where this measure has none of that name."""
        if score_name not in self.score_names:
            raise UserError(
                f"{self.kind} has no metric {score_name}{did_you_mean(score_name, self.score_names)}",
                topic="evaluation",
            )
        return score_name


class RatioMetric(Metric):
    """Every metric is one sum over another."""

    ratios: ClassVar[Mapping[str, tuple[int, int]]]
    "By metric, the main one first: the column of the sum, and the column that counts."

    @property
    def score_names(self) -> tuple[str, ...]:
        return tuple(self.ratios)

    def score_function(self, score_name: str) -> ScoreFunction:
        return ratio_score(*self.ratios[self.check_name(score_name)])

    def count_index(self, score_name: str) -> int | None:
        return self.ratios[self.check_name(score_name)][1]


def build_metric(settings: Mapping[str, Any]) -> Metric:
    """The measure that gave these `settings`."""
    # The measures import this file, so they are looked up when asked for.
    from regard.evaluation.metrics.bleu_and_rouge import SummaryMetric, TranslationMetric
    from regard.evaluation.metrics.classification import ClassificationMetric
    from regard.evaluation.metrics.document_losses import DocumentMetric
    from regard.evaluation.metrics.pixels import PixelMetric
    from regard.evaluation.metrics.question_answering import AnswerMetric
    from regard.evaluation.metrics.ranking import RankingMetric
    from regard.evaluation.metrics.recall import RecallMetric
    from regard.evaluation.metrics.similarity import SimilarityMetric

    sorts: tuple[type[Metric], ...] = (
        *(ClassificationMetric, AnswerMetric, TranslationMetric, SummaryMetric),
        *(RankingMetric, RecallMetric, SimilarityMetric, DocumentMetric, PixelMetric),
    )
    by_kind = {sort.kind: sort for sort in sorts}
    kind, rest = str(settings.get("kind", "")), {k: v for k, v in settings.items() if k != "kind"}
    if kind not in by_kind:
        raise UserError(
            f"unknown measure {kind!r}{did_you_mean(kind, by_kind)}", topic="evaluation"
        )
    try:
        return by_kind[kind](**rest)
    except TypeError as error:
        raise UserError(
            f"measure {kind} cannot be built from {', '.join(rest) or 'nothing'}",
            topic="evaluation",
            hint="The file was written by another version of regard, or edited.",
        ) from error


def score(
    metric: Metric, rows: Sequence[Row], *, split: str, bootstrap: Bootstrap | None = None
) -> list[Estimate]:
    """Every metric that has items, the main one first."""
    bootstrap = bootstrap or Bootstrap()
    rows = _by_item(_some(rows, split))
    table = metric.statistics(rows)
    estimates = []
    for score_name in metric.score_names:
        own = _own_items(table, metric.count_index(score_name))
        n = own.shape[1]
        if not n:
            continue
        score_function = metric.score_function(score_name)
        value = float(score_function(own.sum(axis=1)))
        interval: Interval
        if metric.is_proportion(score_name):
            interval = wilson(round(value * n), n, confidence=bootstrap.confidence)
            how = f"wilson-{100 * bootstrap.confidence:.4g}%"
        else:
            interval, how = _interval(own, score_function, bootstrap), str(bootstrap)
        facts = {"split": split} | metric.facts(score_name, rows) | {"interval": how}
        estimates.append(
            _figure(score_name, metric, value=value, interval=interval, n=n, facts=facts)
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
    """The metric of ours minus theirs, drawn on the same items."""
    bootstrap = bootstrap or Bootstrap()
    score_function, count_index = (
        metric.score_function(metric.check_name(score_name)),
        metric.count_index(score_name),
    )
    ours, theirs = _paired(metric, _some(ours, split), _some(theirs, split), split=split)
    tables = [metric.statistics(rows) for rows in (ours, theirs)]
    counts = [
        table[count_index] if count_index is not None else np.ones(len(ours)) for table in tables
    ]
    if not np.array_equal(counts[0], counts[1]) or not counts[0].any():
        raise UserError(
            f"{score_name} does not count the same {metric.items} of ours ({counts[0].sum():,.0f}) "
            f"and of theirs ({counts[1].sum():,.0f}), or counts none",
            topic="comparison",
            where=split,
            hint="A difference needs the same items on both sides, and at least one.",
        )
    first, second = (_own_items(table, count_index) for table in tables)
    width, both = len(first), np.concatenate([first, second])

    def apart(sums: Values) -> Values:
        return np.asarray(score_function(sums[:width]) - score_function(sums[width:]))

    return _figure(
        f"{score_name}_difference",
        metric,
        value=float(apart(both.sum(axis=1))),
        interval=_interval(both, apart, bootstrap),
        n=both.shape[1],
        facts={"split": split} | metric.facts(score_name, ours) | {"interval": str(bootstrap)},
    )


def difference_verdict(difference: Estimate, *, higher_is_better: bool) -> str:
    """What a difference says of ours; no interval or few items, no verdict."""
    if difference.n < MIN_ITEMS:
        return "on too few to be told from"
    if difference.low is None or difference.high is None or difference.low <= 0 <= difference.high:
        return "not distinguishable from"
    return "better than" if (difference.low > 0) == higher_is_better else "behind"


def ratio_score(top: int, bottom: int) -> ScoreFunction:
    """One sum over another: a mean, where the second column counts."""

    def score_function(sums: Values) -> Values:
        return ratio(sums[[top, bottom]])

    return score_function


def _figure(
    name: str,
    metric: Metric,
    *,
    value: float,
    interval: Interval,
    n: int,
    facts: Mapping[str, object],
) -> Estimate:
    low, high = interval or (None, None)
    told = facts if interval else {**facts, "interval": "none"}
    return Estimate(
        name=name,
        value=value,
        low=low,
        high=high,
        n=n,
        items=metric.items,
        signature=signature(name, metric=metric.kind, **told),
        no_interval="" if interval else "one item cannot show how items vary",
    )


def _interval(table: Values, score_function: ScoreFunction, bootstrap: Bootstrap) -> Interval:
    """Low and high of the statistic, the items drawn anew."""
    n = table.shape[1]

    def drawn(numbers: ItemStatistics) -> Values:
        """(1, …, n) numbers of drawn items to (1, …) values."""
        index = numbers[0].astype(np.int64)
        draws = index.reshape(-1, n)
        # How often each item was drawn: sums are then one product, however many columns.
        spread = draws + n * np.arange(len(draws))[:, None]
        times = np.bincount(spread.ravel(), minlength=draws.size).reshape(draws.shape)
        sums = (table @ times.T.astype(np.float64)).reshape(len(table), *index.shape[:-1])
        return np.asarray(score_function(sums)[None])

    [interval] = bootstrap.intervals(np.arange(n, dtype=np.float64)[None], drawn)
    return interval


def _own_items(table: Values, count_index: int | None) -> Values:
    # Other items would only add draws in which the metric has nothing to count.
    return table if count_index is None else table[:, table[count_index] > 0]


def _some(rows: Sequence[Row], split: str) -> Sequence[Row]:
    if not rows:
        raise UserError(
            "there is nothing to measure",
            topic="evaluation",
            where=split,
            hint="Give at least one item.",
        )
    return rows


def _by_item(rows: Sequence[Row]) -> Sequence[Row]:
    """In the order of their numbers, so that the order of a file changes no drawn interval."""
    if not all("item" in row for row in rows):
        return rows
    return sorted(rows, key=lambda row: int(row["item"]))


def _paired(
    metric: Metric, ours: Sequence[Row], theirs: Sequence[Row], *, split: str
) -> tuple[Sequence[Row], Sequence[Row]]:
    """Both in one order of items; refused where items or their truths are not the same."""

    def refusal(what: str) -> UserError:
        return UserError(
            what,
            topic="comparison",
            where=split,
            hint="Figures from different items are not put side by side: measure both on one part.",
        )

    sides = []
    for name, rows in (("ours", ours), ("theirs", theirs)):
        numbered = {row["item"]: row for row in rows if "item" in row}
        if len(numbered) < len(rows):
            raise refusal(f"{name}: an item has no number, or the number of another")
        sides.append(numbered)
    first, second = sides
    if first.keys() != second.keys():
        shared = len(first.keys() & second.keys())
        raise refusal(
            f"{len(first):,} {metric.items} of ours, {len(second):,} of theirs, {shared:,} in both"
        )
    order = sorted(first)
    for item in order:
        if first[item].get(metric.truth) != second[item].get(metric.truth):
            raise refusal(f"item {item} has another {metric.truth} in ours than in theirs")
    return [first[item] for item in order], [second[item] for item in order]
