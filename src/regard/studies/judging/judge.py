"""Judge tables of items: the same verdicts as for the variants and seeds of a study.

Items are paired by id and seeds by number; whatever cannot be paired is an error, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from regard.core.errors import UserError, did_you_mean
from regard.evaluation.formatting import join_words, quantity
from regard.evaluation.statistics.seed_tables import SeedTables, Values
from regard.evaluation.statistics.significance import holm, method_difference
from regard.runs.items import hash_facts
from regard.studies.collect import verdict_outcome
from regard.studies.judging.columns import (
    SAME_DOCUMENT,
    USUAL_NAMES,
    Condition,
    find_column,
    keys,
    separating_columns,
)
from regard.studies.judging.item_metric import ItemMetric, find_metric
from regard.studies.judging.item_table import ItemTable, as_key
from regard.studies.outcome import Outcome, ResultSource, RunOutcome, VariantOutcome
from regard.studies.seed_spread import seed_spread

DEFAULT_SPLIT = "test"
"What items are called in labels if their files do not say what was evaluated."


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is compared, and which columns hold it; None: found by the usual names."""

    metric: str | None = None
    id: str | None = None
    seed: str | None = None
    variant: str | None = None
    predicted: str | None = None
    truth: str | None = None
    where: tuple[Condition, ...] = ()
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


@dataclass(frozen=True, eq=False)
class _Variant:
    name: str
    seeds: Mapping[int, Mapping[str, _Row]]
    "By seed and item."

    @property
    def items(self) -> Mapping[str, _Row]:
        return next(iter(self.seeds.values()))


@dataclass
class _Columns:
    """The columns in use, and what was assumed of them."""

    id: str | None
    seed: str | None
    same: str | None
    assumed: list[str] = field(default_factory=list)

    @property
    def used(self) -> set[str]:
        return {name for name in (self.id, self.seed) if name is not None}


def judge_tables(
    tables: Sequence[ItemTable],
    question: Question,
    *,
    sources: Sequence[ResultSource],
    command: str,
) -> Outcome:
    """The outcome of comparing every variant with the reference."""
    for condition in question.where:
        tables = [condition.select(table) for table in tables]
    tables, assumed = _split_variants(tables, question.variant)
    names = list(dict.fromkeys(table.name for table in tables))
    reference = _reference(names, question.reference)
    metric = find_metric(
        tables,
        question.metric,
        lower_is_better=question.lower_is_better,
        predicted=question.predicted,
        truth=question.truth,
    )
    columns = _find_columns(tables, question, metric)
    variants = [
        _read_variant([table for table in tables if table.name == name], columns, metric)
        for name in names
    ]
    for variant in variants[1:]:
        _check_same_items(variants[0].items, variant.items, columns)
    score_key = f"{_split(tables)}.{metric.name}"
    measured = {one.name: _seed_tables(one, _split(tables), columns) for one in variants}
    differences = holm(
        [
            method_difference(
                *_on_shared_seeds(measured[name], measured[reference]), metric.score_function
            )
            for name in names
            if name != reference
        ]
    )
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
        variants=[
            VariantOutcome(
                name,
                {},
                runs=[RunOutcome(seed, "") for seed in one.seeds],
                estimates={
                    score_key: seed_spread(one, metric.score_function, bounds=metric.bounds)
                },
            )
            for name, one in measured.items()
        ],
        verdicts=[
            verdict_outcome(score_key, one, lower_is_better=metric.lower_is_better)
            for one in differences
        ],
        baselines=[],
        unequal=[],
        invalid=[],
        missing=[],
        remarks=[read, *assumed, *columns.assumed, *_left_out_seeds(measured)],
        command=command,
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


def _find_columns(tables: Sequence[ItemTable], question: Question, metric: ItemMetric) -> _Columns:
    columns = _Columns(
        find_column(tables, "id", question.id),
        find_column(tables, "seed", question.seed),
        SAME_DOCUMENT
        if all(SAME_DOCUMENT in table.columns for table in tables)
        else metric.same or find_column(tables, "truth", question.truth),
    )
    if columns.id is None:
        names = ", ".join(USUAL_NAMES["id"][:4])
        columns.assumed.append(
            f"no column is called {names} or the like: items are paired by their order; "
            "name their ids with --id"
        )
    elif question.id is None:
        columns.assumed.append(f"items are paired by {columns.id}")
    if columns.seed is not None and question.seed is None:
        columns.assumed.append(f"seeds are told apart by {columns.seed}")
    return columns


def _read_variant(tables: Sequence[ItemTable], columns: _Columns, metric: ItemMetric) -> _Variant:
    """A variant of one file, or of a file for each seed."""
    seeds: dict[int, dict[str, _Row]] = {}
    numbers = _seed_numbers(tables, columns)
    for table, table_seeds in zip(tables, numbers, strict=True):
        statistics = metric.statistics(table)
        ids = keys(table, columns.id, what="id") if columns.id is not None else None
        for row, seed in enumerate(table_seeds):
            rows = seeds.setdefault(seed, {})
            key = ids[row] if ids is not None else str(len(rows) + 1)
            if key in rows:
                raise _repeated(key, rows[key], table, row, columns)
            rows[key] = _Row(table, row, statistics[:, row])
    variant = _Variant(tables[0].name, {seed: seeds[seed] for seed in sorted(seeds)})
    for other in list(variant.seeds.values())[1:]:
        _check_same_items(variant.items, other, columns)
    return variant


def _seed_numbers(tables: Sequence[ItemTable], columns: _Columns) -> list[list[int]]:
    """The seed of every row: a number, or the place of a seed's name among all names."""
    if columns.seed is None:
        if len(tables) > 1:
            columns.assumed.append(
                f"the {len(tables)} files of {tables[0].name} are its seeds, in this order"
            )
        return [[part] * len(table) for part, table in enumerate(tables)]
    read = [keys(table, columns.seed, what="seed") for table in tables]
    names = sorted(set(chain.from_iterable(read)))
    try:
        return [[int(name) for name in part] for part in read]
    except ValueError:
        order = {name: number for number, name in enumerate(names)}
        return [[order[name] for name in part] for part in read]


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
    first: Mapping[str, _Row], other: Mapping[str, _Row], columns: _Columns
) -> None:
    """The same items on both sides, with the same truths."""
    only_first = [first[key] for key in first if key not in other]
    only_other = [other[key] for key in other if key not in first]
    a, b = (next(iter(side.values())).table for side in (first, other))
    if only_first or only_other:
        lone = (only_other or only_first)[0]
        sides = (a.title, b.title) if only_first and not only_other else (b.title, a.title)
        what = (
            f"{quantity(len(other), 'items')}, {a.title} has {len(first):,}, and "
            f"{len(first) - len(only_first):,} are the same: {sides[0]} alone has "
            f"{_item(lone, columns)}"
        )
        raise b.error(
            what, hint="Evaluate both on the same items, or name another column of ids with --id."
        )
    if columns.same is None:
        return
    for key, one in first.items():
        another = other[key]
        truths = [as_key(each.table.columns[columns.same][each.row]) for each in (one, another)]
        if truths[0] != truths[1]:
            shown = [repr(truth if len(truth) <= 40 else f"{truth[:39]}…") for truth in truths]
            raise another.table.error(
                f"item {key} has {columns.same} {shown[1]}, and {shown[0]} in {one.at}",
                row=another.row,
                hint="These are not the same items: pair them by another column with --id.",
            )


def _item(row: _Row, columns: _Columns) -> str:
    """`17 (line 18)`"""
    if columns.id is None:
        return row.table.at[row.row]
    return f"{as_key(row.table.columns[columns.id][row.row])} ({row.table.at[row.row]})"


def _seed_tables(variant: _Variant, split: str, columns: _Columns) -> SeedTables:
    order = sorted(variant.items)
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
    )


def _on_shared_seeds(a: SeedTables, b: SeedTables) -> tuple[SeedTables, SeedTables]:
    shared = [seed for seed in a.seeds if seed in b.seeds]
    if not shared:
        raise UserError(
            f"{a.variant} has seeds {_join(a.seeds)}, {b.variant} has {_join(b.seeds)}: none in "
            "common",
            topic="judge",
            hint="Seeds are compared in pairs: give both the same numbers.",
        )
    return a.select(shared), b.select(shared)


def _left_out_seeds(measured: Mapping[str, SeedTables]) -> list[str]:
    shared = set.intersection(*(set(one.seeds) for one in measured.values()))
    return [
        f"seeds {_join(lone)} of {name} have no partner in every other variant"
        for name, one in measured.items()
        if (lone := [seed for seed in one.seeds if seed not in shared])
    ]


def _join(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, seeds))


def _split(tables: Sequence[ItemTable]) -> str:
    """What was evaluated, if all tables agree on it; a score key's first part has no dot."""
    tasks = {table.task for table in tables}
    task = tasks.pop() if len(tasks) == 1 else ""
    return task.replace(".", "-") or DEFAULT_SPLIT
