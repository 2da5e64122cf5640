"""Estimates of a metric: scores of a table of items, and paired differences of two tables.

Proportions of items have Wilson's interval; every other score is bootstrapped over items.

Shapes: c statistics, n items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import Metric, Row
from regard.evaluation.statistics.estimate import Estimate
from regard.evaluation.statistics.intervals import Bootstrap, ItemStatistics, wilson
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values

Interval: TypeAlias = tuple[float, float] | None


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
        facts = {"metric": metric.kind, "split": split} | metric.facts(score_name, rows)
        estimates.append(
            Estimate.over_items(
                score_name,
                value,
                interval,
                n=n,
                items=metric.items,
                method=method,
                facts=facts,
            )
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

    facts = {"metric": metric.kind, "split": split} | metric.facts(score_name, ours)
    return Estimate.over_items(
        f"{score_name}_difference",
        float(difference(stacked.sum(axis=1))),
        _interval(stacked, difference, bootstrap),
        n=stacked.shape[1],
        items=metric.items,
        method=bootstrap,
        facts=facts,
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
