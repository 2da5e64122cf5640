"""Columns that look like groups of items, though nobody declared them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from regard.data.overlap.straddling import likely_group_columns
from regard.evaluation.statistics.item_groups import GroupNumbers, count_groups
from regard.evaluation.statistics.seed_tables import SeedTables
from regard.evaluation.statistics.significance import method_difference
from regard.studies.judging.item_metric import ItemMetric
from regard.studies.judging.item_variants import ItemVariant, group_numbers_of, on_shared_seeds
from regard.studies.judging.used_columns import UsedColumns

NOTABLE_RATIO = 1.2
"Of standard errors, from which groups that were not declared are said."
MAX_PROPOSED = 3


def undeclared_groups(
    variant: ItemVariant,
    measured: Mapping[str, SeedTables],
    columns: UsedColumns,
    metric: ItemMetric,
) -> list[str]:
    """Columns over whose groups differences vary more than over items: items of one value
    resemble each other."""
    if columns.group is not None:
        return []
    table = next(iter(variant.items.values())).table
    values = {
        name: [variant.items[key].value(name) for key in variant.order]
        for name in table.columns
        if name not in columns.used and name not in table.scores
    }
    plain = {name: some for name, some in values.items() if not any(map(_is_nested, some))}
    return [
        f"items of the same {name} resemble each other: over its {groups} groups the standard "
        f"error is {larger:.1f} times as large; if they belong together, say --group {name}"
        for name in likely_group_columns(plain)
        if (labels := group_numbers_of(variant, name)) is not None
        and (groups := count_groups(labels))
        and (larger := _error_ratio(measured, variant.name, labels, columns, metric))
        >= NOTABLE_RATIO
    ][:MAX_PROPOSED]


def _error_ratio(
    measured: Mapping[str, SeedTables],
    first: str,
    groups: GroupNumbers,
    columns: UsedColumns,
    metric: ItemMetric,
) -> float:
    """How much larger the standard error over items becomes with these groups, at most."""
    ratios = []
    for name in measured.keys() - {first}:
        a, b = on_shared_seeds(measured[name], measured[first], columns)
        alone, grouped = (
            method_difference(
                replace(a, groups=labels), replace(b, groups=labels), metric.score_function
            )
            for labels in (None, groups)
        )
        if alone.se_items > 0:
            ratios.append(grouped.se_items / alone.se_items)
    return max(ratios, default=0.0)


def _is_nested(value: object) -> bool:
    return isinstance(value, list | dict)
