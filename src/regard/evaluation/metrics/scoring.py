"""Estimates of a metric: scores of a table of items, and paired differences of two tables.

Proportions of items have Wilson's interval; every other score is bootstrapped over items, and
smoothed where few items of a class decide it (`statistics/smoothing.py`). Items of a group (their
field `group`) are not independent: intervals are then over groups.

Shapes: c statistics, n items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import Metric, Row, row_groups
from regard.evaluation.statistics.estimate import Estimate
from regard.evaluation.statistics.intervals import (
    Bootstrap,
    ItemStatistics,
    at_least_t,
    wilson_by_group,
)
from regard.evaluation.statistics.item_groups import (
    GroupNumbers,
    count_groups,
    effective_groups,
    select_groups,
    sum_by_group,
)
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values
from regard.evaluation.statistics.smoothing import widened

Interval: TypeAlias = tuple[float, float] | None


def score(
    metric: Metric, rows: Sequence[Row], *, split: str, bootstrap: Bootstrap | None = None
) -> list[Estimate]:
    """Estimates of all scores that have items, the main one first."""
    bootstrap = bootstrap or Bootstrap()
    rows = _by_item(_not_empty(rows, split))
    table, groups = metric.statistics(rows), row_groups(rows)
    estimates = []
    for score_name in metric.score_names:
        counted, its_groups = _counted_items(table, groups, metric.count_index(score_name))
        n = counted.shape[1]
        if not n:
            continue
        score_function = metric.score_function(score_name)
        value = float(score_function(counted.sum(axis=1)))
        interval: Interval
        if metric.is_proportion(score_name):
            is_success = score_function(counted) > 0.5
            interval = wilson_by_group(is_success, its_groups, confidence=bootstrap.confidence)
            method = f"wilson-{100 * bootstrap.confidence:.4g}%"
        else:
            interval = _interval(counted, its_groups, score_function, bootstrap)
            method = str(bootstrap)
        why_none = metric.why_no_interval(score_name, counted)
        smoothing = metric.smoothing(score_name, counted)
        if why_none:
            interval = None
        elif interval and smoothing:
            units = sum_by_group(counted, its_groups)
            interval = widened(interval, units, smoothing, score_function, bootstrap)
            method = f"{method}-smoothed"
        facts = {"metric": metric.kind, "split": split} | metric.facts(score_name, rows)
        estimates.append(
            Estimate.over_items(
                score_name,
                value,
                interval,
                n=n,
                items=metric.items,
                groups=count_groups(its_groups),
                method=method,
                facts=facts,
                why_none=why_none,
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
    """Our score minus theirs, with a paired bootstrap over the same items, grouped as ours."""
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
    (first, groups), (second, _) = (
        _counted_items(table, row_groups(ours), count_index) for table in tables
    )
    width, stacked = len(first), np.concatenate([first, second])

    def difference(sums: Values) -> Values:
        return np.asarray(score_function(sums[:width]) - score_function(sums[width:]))

    value = float(difference(stacked.sum(axis=1)))
    interval = _interval(stacked, groups, difference, bootstrap)
    if (equal_groups := effective_groups(groups)) is not None:
        units = sum_by_group(stacked, groups)
        interval = at_least_t(
            interval,
            value,
            difference(units.sum(axis=1, keepdims=True) - units),
            effective_groups=equal_groups,
            confidence=bootstrap.confidence,
        )
    facts = {"metric": metric.kind, "split": split} | metric.facts(score_name, ours)
    return Estimate.over_items(
        f"{score_name}_difference",
        value,
        interval,
        n=stacked.shape[1],
        items=metric.items,
        groups=count_groups(groups),
        method=bootstrap,
        facts=facts,
    )


def _interval(
    table: Values,
    groups: GroupNumbers | None,
    score_function: ScoreFunction,
    bootstrap: Bootstrap,
) -> Interval:
    """Bootstrap interval of the score, items or groups of items resampled."""
    table = sum_by_group(table, groups)
    n = table.shape[1]

    def resampled_score(item_numbers: ItemStatistics) -> Values:
        """(1, …, n) numbers of resampled items or groups to (1, …) scores."""
        index = item_numbers[0].astype(np.int64)
        draws = index.reshape(-1, n)
        # Multiplicities of the items: all sums are then one matrix product.
        offset = draws + n * np.arange(len(draws))[:, None]
        multiplicity = np.bincount(offset.ravel(), minlength=draws.size).reshape(draws.shape)
        sums = (table @ multiplicity.T.astype(np.float64)).reshape(len(table), *index.shape[:-1])
        return np.asarray(score_function(sums)[None])

    [interval] = bootstrap.intervals(
        np.arange(n, dtype=np.float64)[None],
        resampled_score,
        effective_groups=effective_groups(groups),
    )
    return interval


def _counted_items(
    table: Values, groups: GroupNumbers | None, count_index: int | None
) -> tuple[Values, GroupNumbers | None]:
    """The items that the score counts, and their groups."""
    if count_index is None:
        return table, groups
    # Other items would only add resamples in which the score has nothing to count.
    counted = table[count_index] > 0
    return table[:, counted], select_groups(groups, counted)


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
