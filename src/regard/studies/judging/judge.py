"""Judge tables of items: the same verdicts as for the variants and seeds of a study.

Items are paired by id and seeds by number; whatever cannot be paired is an error, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from regard.core.errors import UserError, did_you_mean
from regard.evaluation.formatting import quantity
from regard.evaluation.health.predictions import collapse_warning
from regard.evaluation.statistics.holm import holm
from regard.evaluation.statistics.seed_tables import SeedTables, ratio
from regard.evaluation.statistics.significance import method_difference
from regard.runs.results import ContaminationRecord
from regard.studies.collect import why_not_ranked
from regard.studies.judging.columns import (
    find_column,
    keys,
)
from regard.studies.judging.item_metric import (
    ItemMetric,
    find_metric,
    other_spelling,
)
from regard.studies.judging.item_table import ItemTable, as_key, is_missing
from regard.studies.judging.item_variants import (
    ItemVariant,
    check_same_items,
    on_shared_seeds,
    read_variant,
    seed_tables,
    titles,
)
from regard.studies.judging.score_names import is_a_fraction_or_percent
from regard.studies.judging.settings import JudgeSettings
from regard.studies.judging.undeclared_groups import undeclared_groups
from regard.studies.judging.used_columns import UsedColumns, find_columns
from regard.studies.outcome import (
    Outcome,
    ResultSource,
    RunOutcome,
    StudyContamination,
    VariantOutcome,
    VerdictOutcome,
)
from regard.studies.seed_spread import seed_spread
from regard.studies.verdicts.comparisons import verdict_outcome

SCALE_RATIO = 10.0
"Of the largest scores of two variants, from which their scales are doubted."
OVERLAP_KINDS = ("exact", "near")
COLLAPSED = "predicts one class for every row"
DEFAULT_SPLIT = "test"
"What items are called in labels if their files do not say what was evaluated."


def judge_tables(
    tables: Sequence[ItemTable],
    settings: JudgeSettings,
    *,
    sources: Sequence[ResultSource],
    command: str,
) -> Outcome:
    """The outcome of comparing every variant with the reference."""
    for row_filter in settings.where:
        tables = [row_filter.select(table) for table in tables]
    tables, assumed = _split_variants(tables, settings.variant)
    names = list(dict.fromkeys(table.name for table in tables))
    reference = _reference(names, settings.reference)
    metric = find_metric(
        tables,
        settings.metric,
        lower_is_better=settings.lower_is_better,
        predicted=settings.predicted,
        truth=settings.truth,
    )
    columns = find_columns(tables, settings, metric)
    variants = _read_variants(tables, names, columns, metric)
    scales = _check_scales(variants, metric)
    score_key = f"{_split(tables)}.{metric.name}"
    variants, contamination = _leave_out_overlap(variants, score_key, columns, metric)
    measured = {one.name: seed_tables(one, _split(tables), columns) for one in variants}
    collapsed = {one.name: how for one in variants if (how := _collapse(one, metric))}
    outcomes = [
        VariantOutcome(
            name,
            {},
            runs=[RunOutcome(seed, "") for seed in one.seeds],
            estimates={score_key: seed_spread(one, metric.score_function, bounds=metric.bounds)},
            collapsed=collapsed.get(name, ""),
        )
        for name, one in measured.items()
    ]
    more = "lower" if metric.lower_is_better else "higher"
    return Outcome(
        name=" vs ".join(names) if len(names) <= 3 else quantity(len(names), "variants"),
        question="",
        decides=score_key,
        reference=reference,
        seeds=tuple(sorted(set(chain.from_iterable(one.seeds for one in measured.values())))),
        budget="",
        tuned=(),
        variants=outcomes,
        verdicts=_verdicts(score_key, measured, reference, collapsed, columns, metric),
        baselines=[],
        unequal=[],
        invalid=[],
        missing=[],
        remarks=[
            f"{metric.name} is {metric.source}; {more} is better",
            *assumed,
            *columns.assumed,
            *_left_out_seeds(measured, columns),
            *scales,
            *other_spelling(tables, metric),
            *undeclared_groups(variants[0], measured, columns, metric),
        ],
        command=command,
        collapsed=[why_not_ranked(one) for one in outcomes if one.collapsed],
        contamination=contamination,
        sources=sources,
        lower_is_better=metric.lower_is_better,
    )


def _read_variants(
    tables: Sequence[ItemTable], names: Sequence[str], columns: UsedColumns, metric: ItemMetric
) -> list[ItemVariant]:
    variants = [
        read_variant([table for table in tables if table.name == name], columns, metric)
        for name in names
    ]
    first, *others = variants
    for variant in others:
        check_same_items(first.items, variant.items, columns, names=titles(first, variant))
    return variants


def _verdicts(
    score_key: str,
    measured: Mapping[str, SeedTables],
    reference: str,
    collapsed: Mapping[str, str],
    columns: UsedColumns,
    metric: ItemMetric,
) -> list[VerdictOutcome]:
    """Every variant against the reference; one that predicts a single class is not compared."""
    others = [name for name in measured if name != reference]
    differences = holm(
        [
            method_difference(
                *on_shared_seeds(measured[name], measured[reference], columns),
                metric.score_function,
            )
            for name in others
            if not {name, reference} & collapsed.keys()
        ]
    )
    return [
        verdict_outcome(score_key, one, lower_is_better=metric.lower_is_better)
        for one in differences
    ] + [
        VerdictOutcome(score_key, name, reference, "not compared", (f"{side} {COLLAPSED}",), "")
        for name in others
        if (side := next((one for one in (name, reference) if one in collapsed), None))
    ]


def _split_variants(
    tables: Sequence[ItemTable], given: str | None
) -> tuple[list[ItemTable], list[str]]:
    """One table for each value of the column of variants, which a lone table must have."""
    column = find_column(tables, "variant", given) if given or len(tables) == 1 else None
    if column is None:
        if len({table.name for table in tables}) < 2:
            raise tables[0].error(
                "one variant, and nothing to compare it with",
                hint="Give a second file, or name the column of variants with --variant.",
            )
        return list(tables), []
    split = []
    for table in tables:
        values = keys(table, column, what="variant")
        for name in dict.fromkeys(values):
            kept = [row for row, value in enumerate(values) if value == name]
            split.append(table.select(kept, name=name))
    if len({table.name for table in split}) < 2:
        raise tables[0].error(
            f"one variant, {split[0].name}, and nothing to compare it with",
            hint="Give a second file, or name another column with --variant.",
        )
    return split, [] if given else [f"variants are told apart by {column}"]


def _reference(names: Sequence[str], given: str | None) -> str:
    if given is not None and given not in names:
        raise UserError(
            f"--reference {given}: no such variant{did_you_mean(given, names)}", topic="judge"
        )
    return given or names[0]


def _leave_out_overlap(
    variants: list[ItemVariant], score_key: str, columns: UsedColumns, metric: ItemMetric
) -> tuple[list[ItemVariant], list[StudyContamination]]:
    """The clean items, if files say with regard's own words which ones stand in training: an item
    that any variant was trained on is left out of all."""
    kinds: dict[str, str] = {}
    for rows in (rows for one in variants for rows in one.seeds.values()):
        marked = {key: row.overlap for key, row in rows.items() if not is_missing(row.overlap)}
        if not set(map(str, marked.values())) <= set(OVERLAP_KINDS):
            return variants, []  # a column of another tool, with another meaning
        kinds |= {key: min(kind, kinds.get(key, kind)) for key, kind in marked.items()}
    if not kinds:
        return variants, []
    split, n = score_key.partition(".")[0], len(variants[0].items)
    record = ContaminationRecord(
        split=split,
        unit="items",
        n=n,
        overlapping=len(kinds),
        exact=sum(kind == "exact" for kind in kinds.values()),
    )
    if not record.clean:
        raise UserError(
            f"all {n:,} items stand in training (column overlap), so nothing can be judged",
            topic="judge",
            hint="Evaluate on items that no variant was trained on.",
        )
    estimates = {
        one.name: seed_spread(
            seed_tables(one, split, columns), metric.score_function, bounds=metric.bounds
        )
        for one in variants
    }
    clean = [
        ItemVariant(
            one.name,
            {
                seed: {key: row for key, row in rows.items() if key not in kinds}
                for seed, rows in one.seeds.items()
            },
        )
        for one in variants
    ]
    return clean, [StudyContamination(record, estimates)]


def _collapse(variant: ItemVariant, metric: ItemMetric) -> str:
    """How it predicts one class for every row, with some or all of its seeds; empty if not."""
    if metric.answers is None:
        return ""
    found = []
    for rows in variant.seeds.values():
        predicted, truth = (
            [as_key(row.value(column)) for row in rows.values()] for column in metric.answers
        )
        if warning := collapse_warning(predicted, truth):
            found.append(warning)
    seeds = f" with {len(found)} of {len(variant.seeds)} seeds" if len(variant.seeds) > 1 else ""
    if not found:
        return ""
    which = "its" if len(found) == len(variant.seeds) else "such a seed's"
    accuracy = f"{which} accuracy is the frequency of that class"
    return f"{COLLAPSED}{seeds}: {found[0]}; {accuracy}"


def _left_out_seeds(measured: Mapping[str, SeedTables], columns: UsedColumns) -> list[str]:
    shared = set.intersection(*(set(one.seeds) for one in measured.values()))
    return [
        f"seeds {columns.join_seeds(lone)} of {name} have no partner in every other variant"
        for name, one in measured.items()
        if (lone := [seed for seed in one.seeds if seed not in shared])
    ]


def _check_scales(variants: Sequence[ItemVariant], metric: ItemMetric) -> list[str]:
    """Scores of one variant from 0 to 1 and of another from 0 to 100 would decide by themselves."""
    if metric.lower_is_better or metric.score_function is not ratio or metric.bounds[1] < np.inf:
        return []
    largest = {
        one.name: max(
            float(row.statistics[0]) for rows in one.seeds.values() for row in rows.values()
        )
        for one in variants
    }
    fractions = [name for name, value in largest.items() if 0 < value <= 1]
    percent = max(largest, key=lambda name: largest[name])
    if not fractions or largest[percent] <= SCALE_RATIO * largest[fractions[0]]:
        return []
    what = (
        f"{metric.name} of {fractions[0]} is at most {largest[fractions[0]]:.3g}, and of {percent} "
        f"up to {largest[percent]:.3g}"
    )
    if not is_a_fraction_or_percent(metric.name):
        return [f"{what}: are their scales the same?"]
    hint = "Write both from 0 to 1, or both from 0 to 100."
    raise UserError(what, topic="judge", hint=hint)


def _split(tables: Sequence[ItemTable]) -> str:
    """What was evaluated, if all tables agree on it; a score key's first part has no dot."""
    tasks = {table.task for table in tables}
    task = tasks.pop() if len(tasks) == 1 else ""
    return task.replace(".", "-") or DEFAULT_SPLIT
