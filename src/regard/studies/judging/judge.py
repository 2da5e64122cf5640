"""Judge tables of items: the same verdicts as for the variants and seeds of a study.

Items are paired by id and seeds by number; whatever cannot be paired is an error, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from regard.core.errors import UserError, did_you_mean
from regard.data.overlap.straddling import likely_group_columns
from regard.evaluation.formatting import join_words, quantity
from regard.evaluation.health.predictions import collapse_warning
from regard.evaluation.statistics.holm import holm
from regard.evaluation.statistics.item_groups import GroupNumbers, count_groups, group_numbers
from regard.evaluation.statistics.seed_tables import SeedTables, Values, ratio
from regard.evaluation.statistics.significance import method_difference
from regard.runs.items import hash_facts
from regard.runs.results import ContaminationRecord
from regard.studies.collect import why_not_ranked
from regard.studies.judging.columns import (
    SAME_DOCUMENT,
    USUAL_NAMES,
    RowFilter,
    find_column,
    find_frame_index,
    keys,
    separating_columns,
)
from regard.studies.judging.item_metric import (
    ItemMetric,
    find_metric,
    is_a_fraction_or_percent,
    other_spelling,
)
from regard.studies.judging.item_table import ItemTable, as_key, is_missing
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

NOTABLE_RATIO = 1.2
"Of standard errors, from which groups that were not declared are said."
MAX_PROPOSED = 3
SCALE_RATIO = 10.0
"Of the largest scores of two variants, from which their scales are doubted."
OVERLAP = "overlap"
"The column in which regard's own items say how they stand in training."
OVERLAP_KINDS = ("exact", "near")
COLLAPSED = "predicts one class for every row"
DEFAULT_SPLIT = "test"
"What items are called in labels if their files do not say what was evaluated."


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """What is compared, and which columns hold it; None: found by the usual names."""

    metric: str | None = None
    id: str | None = None
    seed: str | None = None
    group: str | None = None
    variant: str | None = None
    predicted: str | None = None
    truth: str | None = None
    where: tuple[RowFilter, ...] = ()
    reference: str | None = None
    lower_is_better: bool | None = None


@dataclass(frozen=True, eq=False)
class _Row:
    """One item of one seed: where it stands, and its statistics."""

    table: ItemTable
    row: int
    statistics: Values
    "(c,)"

    @property
    def at(self) -> str:
        return f"{self.table.title}, {self.table.at[self.row]}"

    def value(self, column: str) -> Any:
        return self.table.columns[column][self.row]

    @property
    def overlap(self) -> Any:
        return self.value(OVERLAP) if OVERLAP in self.table.columns else None


@dataclass(frozen=True, eq=False)
class _Variant:
    name: str
    seeds: Mapping[int, Mapping[str, _Row]]
    "By seed and item."

    @property
    def items(self) -> Mapping[str, _Row]:
        return next(iter(self.seeds.values()))

    @property
    def order(self) -> list[str]:
        return sorted(self.items)


@dataclass
class _Columns:
    """The columns in use, and what was assumed of them."""

    id: str | None
    seed: str | None
    group: str | None
    same: str | None
    "What must be equal for an item wherever it is."
    assumed: list[str] = field(default_factory=list)
    seed_names: Sequence[str] = ()
    "Of all variants, by their numbers; empty where seeds are numbers already."

    def join_seeds(self, seeds: Iterable[int]) -> str:
        names = self.seed_names
        return ", ".join(names[seed] if names else str(seed) for seed in seeds)

    @property
    def used(self) -> set[str]:
        return {name for name in (self.id, self.seed, self.group, self.same) if name is not None}


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
    columns = _find_columns(tables, settings, metric)
    variants = [
        _read_variant([table for table in tables if table.name == name], columns, metric)
        for name in names
    ]
    for variant in variants[1:]:
        _check_same_items(
            variants[0].items, variant.items, columns, names=_titles(variants[0], variant)
        )
    scales = _check_scales(variants, metric)
    score_key = f"{_split(tables)}.{metric.name}"
    variants, contamination = _leave_out_overlap(variants, score_key, columns, metric)
    measured = {one.name: _seed_tables(one, _split(tables), columns) for one in variants}
    collapsed = {one.name: how for one in variants if (how := _collapse(one, metric))}
    others = [name for name in names if name != reference]
    differences = holm(
        [
            method_difference(
                *_on_shared_seeds(measured[name], measured[reference], columns),
                metric.score_function,
            )
            for name in others
            if not {name, reference} & collapsed.keys()
        ]
    )
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
    read = f"{metric.name} is {metric.source}; {more} is better"
    return Outcome(
        name=" vs ".join(names) if len(names) <= 3 else quantity(len(names), "variants"),
        question="",
        decides=score_key,
        reference=reference,
        seeds=tuple(sorted(set(chain.from_iterable(one.seeds for one in measured.values())))),
        budget="",
        tuned=(),
        variants=outcomes,
        verdicts=[
            verdict_outcome(score_key, one, lower_is_better=metric.lower_is_better)
            for one in differences
        ]
        + [
            VerdictOutcome(score_key, name, reference, "not compared", (f"{side} {COLLAPSED}",), "")
            for name in others
            if (side := next((one for one in (name, reference) if one in collapsed), None))
        ],
        baselines=[],
        unequal=[],
        invalid=[],
        missing=[],
        remarks=[
            read,
            *assumed,
            *columns.assumed,
            *_left_out_seeds(measured, columns),
            *scales,
            *other_spelling(tables, metric),
            *_undeclared_groups(variants[0], measured, columns, metric),
        ],
        command=command,
        collapsed=[why_not_ranked(one) for one in outcomes if one.collapsed],
        contamination=contamination,
        sources=sources,
        lower_is_better=metric.lower_is_better,
    )


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


def _find_columns(
    tables: Sequence[ItemTable], settings: JudgeSettings, metric: ItemMetric
) -> _Columns:
    columns = _Columns(
        find_column(tables, "id", settings.id),
        find_column(tables, "seed", settings.seed),
        find_column(tables, "group", settings.group),
        SAME_DOCUMENT
        if all(SAME_DOCUMENT in table.columns for table in tables)
        else metric.same or find_column(tables, "truth", settings.truth),
    )
    if columns.id is None and (index := find_frame_index(tables)) is not None:
        columns.id = index
        columns.assumed.append("items are paired by the index of their data frames")
    elif columns.id is None:
        names = ", ".join(USUAL_NAMES["id"][:4])
        columns.assumed.append(
            f"no column is called {names} or the like: items are paired by their order; "
            "name their ids with --id"
        )
    elif settings.id is None:
        columns.assumed.append(f"items are paired by {columns.id}")
    if columns.seed is not None and settings.seed is None:
        columns.assumed.append(f"seeds are told apart by {columns.seed}")
    if columns.seed is not None:
        columns.seed_names = _seed_names(tables, columns.seed)
    return columns


def _seed_names(tables: Sequence[ItemTable], column: str) -> Sequence[str]:
    """Names of seeds in all tables, so that a name has the same number in each; none if all are
    numbers."""
    names = sorted({name for table in tables for name in keys(table, column, what="seed")})
    try:
        for name in names:
            int(name)
    except ValueError:
        return names
    return ()


def _read_variant(tables: Sequence[ItemTable], columns: _Columns, metric: ItemMetric) -> _Variant:
    """A variant of one file, or of a file for each seed."""
    seeds: dict[int, dict[str, _Row]] = {}
    repeats: dict[tuple[int, str], list[Values]] = {}
    numbers = _seed_numbers(tables, columns)
    for table, table_seeds in zip(tables, numbers, strict=True):
        statistics = metric.statistics(table)
        ids = keys(table, columns.id, what="id") if columns.id is not None else None
        for row, seed in enumerate(table_seeds):
            rows = seeds.setdefault(seed, {})
            key = ids[row] if ids is not None else str(len(rows) + 1)
            if key in rows and not _is_repeat(rows[key], table, row, columns):
                raise _repeated(key, rows[key], table, row, columns)
            repeats.setdefault((seed, key), []).append(statistics[:, row])
            rows.setdefault(key, _Row(table, row, statistics[:, row]))
    _average(seeds, repeats, columns)
    variant = _Variant(tables[0].name, {seed: seeds[seed] for seed in sorted(seeds)})
    first, *others = variant.seeds
    for seed in others:
        names = (f"seed {first} of {variant.name}", f"seed {seed} of {variant.name}")
        _check_same_items(variant.items, variant.seeds[seed], columns, names=names)
    return variant


def _is_repeat(first: _Row, table: ItemTable, row: int, columns: _Columns) -> bool:
    """Whether a row is another answer to the same item, which its format says."""
    if first.table is not table or table.repeats in ("", columns.seed):
        return False
    values = table.columns[table.repeats]
    return bool(values[first.row] != values[row])


def _average(
    seeds: dict[int, dict[str, _Row]],
    repeats: Mapping[tuple[int, str], Sequence[Values]],
    columns: _Columns,
) -> None:
    """Give every item the mean of its repeated answers."""
    most = max(map(len, repeats.values()))
    if most == 1:
        return
    for (seed, key), statistics in repeats.items():
        row = seeds[seed][key]
        if len(statistics) < most:
            raise row.table.error(
                f"item {key} is answered {len(statistics)} times, and others {most} times",
                row=row.row,
                hint="Evaluate every item equally often.",
            )
        seeds[seed][key] = replace(row, statistics=np.mean(statistics, axis=0))
    table = next(iter(next(iter(seeds.values())).values())).table
    columns.assumed.append(
        f"items of {table.name} are the means of {most} {table.repeats}s; to take these as "
        f"seeds, say --seed {table.repeats}"
    )


def _seed_numbers(tables: Sequence[ItemTable], columns: _Columns) -> list[list[int]]:
    """The seed of every row: a number, or the place of a seed's name among those of all tables."""
    if columns.seed is None:
        if len(tables) > 1:
            columns.assumed.append(
                f"the {len(tables)} files of {tables[0].name} are its seeds, in this order"
            )
        return [[part] * len(table) for part, table in enumerate(tables)]
    read = [keys(table, columns.seed, what="seed") for table in tables]
    order = {name: number for number, name in enumerate(columns.seed_names)}
    return [[order[name] if order else int(name) for name in part] for part in read]


def _repeated(key: str, first: _Row, table: ItemTable, row: int, columns: _Columns) -> UserError:
    hint = "Keep one row of each item, or name the column that tells the rows apart with --seed."
    if first.table is table:
        separating = separating_columns(table, (first.row, row), columns.used)
        if separating:
            values = table.columns[separating[0]]
            hint = (
                f"The rows differ in {join_words(separating)}: choose one kind, such as "
                f"--where {separating[0]}={as_key(values[row])}, or name the seeds with --seed."
            )
    return table.error(f"item {key} repeats {first.at}", row=row, hint=hint)


def _check_same_items(
    first: Mapping[str, _Row],
    other: Mapping[str, _Row],
    columns: _Columns,
    *,
    names: tuple[str, str],
) -> None:
    """The same items on both sides, with the same truths."""
    only_first = [first[key] for key in first if key not in other]
    only_other = [other[key] for key in other if key not in first]
    if only_first or only_other:
        lone, owner = (only_other[0], names[1]) if only_other else (only_first[0], names[0])
        raise UserError(
            f"{quantity(len(other), 'items')}, {names[0]} has {len(first):,}, and "
            f"{len(first) - len(only_first):,} are the same: {owner} alone has "
            f"{_item(lone, columns)}",
            topic="judge",
            where=names[1],
            hint="Evaluate both on the same items, or name another column of ids with --id.",
        )
    for column in filter(None, (columns.same, columns.group)):
        for key, one in first.items():
            another = other[key]
            values = [as_key(each.value(column)) for each in (one, another)]
            if values[0] != values[1]:
                shown = [repr(value if len(value) <= 40 else f"{value[:39]}…") for value in values]
                raise another.table.error(
                    f"item {key} has {column} {shown[1]}, and {shown[0]} in {one.at}",
                    row=another.row,
                    hint="These are not the same items: pair them by another column with --id.",
                )


def _leave_out_overlap(
    variants: list[_Variant], score_key: str, columns: _Columns, metric: ItemMetric
) -> tuple[list[_Variant], list[StudyContamination]]:
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
            _seed_tables(one, split, columns), metric.score_function, bounds=metric.bounds
        )
        for one in variants
    }
    clean = [
        _Variant(
            one.name,
            {
                seed: {key: row for key, row in rows.items() if key not in kinds}
                for seed, rows in one.seeds.items()
            },
        )
        for one in variants
    ]
    return clean, [StudyContamination(record, estimates)]


def _titles(a: _Variant, b: _Variant) -> tuple[str, str]:
    """Their files, or their names if they are in one."""
    first, other = (next(iter(one.items.values())).table.title for one in (a, b))
    return (a.name, b.name) if first == other else (first, other)


def _item(row: _Row, columns: _Columns) -> str:
    """`17 (line 18)`"""
    if columns.id is None:
        return row.table.at[row.row]
    return f"{as_key(row.value(columns.id))} ({row.table.at[row.row]})"


def _seed_tables(variant: _Variant, split: str, columns: _Columns) -> SeedTables:
    order = variant.order
    fingerprint = f"{split}:{hash_facts(order)}"
    return SeedTables(
        variant=variant.name,
        seeds=tuple(variant.seeds),
        statistics=np.stack(
            [
                np.stack([rows[key].statistics for key in order], axis=-1)
                for rows in variant.seeds.values()
            ]
        ),
        splits=(fingerprint,) * len(variant.seeds),
        items="items",
        groups=None if columns.group is None else _groups(variant, columns.group),
    )


def _groups(variant: _Variant, column: str) -> GroupNumbers | None:
    values = [variant.items[key].value(column) for key in variant.order]
    return group_numbers([None if is_missing(value) else as_key(value) for value in values])


def _collapse(variant: _Variant, metric: ItemMetric) -> str:
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


def _undeclared_groups(
    variant: _Variant, measured: Mapping[str, SeedTables], columns: _Columns, metric: ItemMetric
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
        if (labels := _groups(variant, name)) is not None
        and (groups := count_groups(labels))
        and (larger := _error_ratio(measured, variant.name, labels, columns, metric))
        >= NOTABLE_RATIO
    ][:MAX_PROPOSED]


def _error_ratio(
    measured: Mapping[str, SeedTables],
    first: str,
    groups: GroupNumbers,
    columns: _Columns,
    metric: ItemMetric,
) -> float:
    """How much larger the standard error over items becomes with these groups, at most."""
    ratios = []
    for name in measured.keys() - {first}:
        a, b = _on_shared_seeds(measured[name], measured[first], columns)
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


def _on_shared_seeds(
    a: SeedTables, b: SeedTables, columns: _Columns
) -> tuple[SeedTables, SeedTables]:
    shared = [seed for seed in a.seeds if seed in b.seeds]
    if not shared:
        raise UserError(
            f"{a.variant} has seeds {columns.join_seeds(a.seeds)}, {b.variant} has "
            f"{columns.join_seeds(b.seeds)}: none in common",
            topic="judge",
            hint="Seeds are compared in pairs: give both the same numbers.",
        )
    return a.select(shared), b.select(shared)


def _left_out_seeds(measured: Mapping[str, SeedTables], columns: _Columns) -> list[str]:
    shared = set.intersection(*(set(one.seeds) for one in measured.values()))
    return [
        f"seeds {columns.join_seeds(lone)} of {name} have no partner in every other variant"
        for name, one in measured.items()
        if (lone := [seed for seed in one.seeds if seed not in shared])
    ]


def _check_scales(variants: Sequence[_Variant], metric: ItemMetric) -> list[str]:
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
