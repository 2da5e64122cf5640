"""The variants of a comparison: their items by seed, checked to be the same ones.

Whatever cannot be paired is an error, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.core.errors import UserError
from regard.core.printable import truncate
from regard.evaluation.formatting import join_words, quantity
from regard.evaluation.statistics.item_groups import GroupNumbers, group_numbers
from regard.evaluation.statistics.seed_tables import SeedTables, Values
from regard.runs.items import hash_facts
from regard.studies.judging.columns import keys, separating_columns
from regard.studies.judging.item_metric import ItemMetric
from regard.studies.judging.item_table import ItemTable, as_key, is_missing
from regard.studies.judging.used_columns import UsedColumns

OVERLAP = "overlap"
"The column in which regard's own items say how they stand in training."


@dataclass(frozen=True, eq=False)
class ItemRow:
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
class ItemVariant:
    name: str
    seeds: Mapping[int, Mapping[str, ItemRow]]
    "By seed and item."

    @property
    def items(self) -> Mapping[str, ItemRow]:
        return next(iter(self.seeds.values()))

    @property
    def order(self) -> list[str]:
        return sorted(self.items)


def read_variant(
    tables: Sequence[ItemTable], columns: UsedColumns, metric: ItemMetric
) -> ItemVariant:
    """A variant of one file, or of a file for each seed."""
    seeds: dict[int, dict[str, ItemRow]] = {}
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
            rows.setdefault(key, ItemRow(table, row, statistics[:, row]))
    _average(seeds, repeats, columns)
    variant = ItemVariant(tables[0].name, {seed: seeds[seed] for seed in sorted(seeds)})
    first, *others = variant.seeds
    for seed in others:
        names = (f"seed {first} of {variant.name}", f"seed {seed} of {variant.name}")
        check_same_items(variant.items, variant.seeds[seed], columns, names=names)
    return variant


def _is_repeat(first: ItemRow, table: ItemTable, row: int, columns: UsedColumns) -> bool:
    """Whether a row is another answer to the same item, which its format says."""
    if first.table is not table or table.repeats in ("", columns.seed):
        return False
    values = table.columns[table.repeats]
    return bool(values[first.row] != values[row])


def _average(
    seeds: dict[int, dict[str, ItemRow]],
    repeats: Mapping[tuple[int, str], Sequence[Values]],
    columns: UsedColumns,
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


def _seed_numbers(tables: Sequence[ItemTable], columns: UsedColumns) -> list[list[int]]:
    """The seed of every row: a number, or the index of a seed's name among those of all tables."""
    if columns.seed is None:
        if len(tables) > 1:
            columns.assumed.append(
                f"the {len(tables)} files of {tables[0].name} are its seeds, in this order"
            )
        return [[part] * len(table) for part, table in enumerate(tables)]
    read = [keys(table, columns.seed, what="seed") for table in tables]
    order = {name: number for number, name in enumerate(columns.seed_names)}
    return [[order[name] if order else int(name) for name in part] for part in read]


def _repeated(
    key: str, first: ItemRow, table: ItemTable, row: int, columns: UsedColumns
) -> UserError:
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


def check_same_items(
    first: Mapping[str, ItemRow],
    other: Mapping[str, ItemRow],
    columns: UsedColumns,
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
                shown = [repr(truncate(value, 40)) for value in values]
                raise another.table.error(
                    f"item {key} has {column} {shown[1]}, and {shown[0]} in {one.at}",
                    row=another.row,
                    hint="These are not the same items: pair them by another column with --id.",
                )


def titles(a: ItemVariant, b: ItemVariant) -> tuple[str, str]:
    """Their files, or their names if they are in one."""
    first, other = (next(iter(one.items.values())).table.title for one in (a, b))
    return (a.name, b.name) if first == other else (first, other)


def _item(row: ItemRow, columns: UsedColumns) -> str:
    """`17 (line 18)`"""
    if columns.id is None:
        return row.table.at[row.row]
    return f"{as_key(row.value(columns.id))} ({row.table.at[row.row]})"


def seed_tables(variant: ItemVariant, split: str, columns: UsedColumns) -> SeedTables:
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
        groups=None if columns.group is None else group_numbers_of(variant, columns.group),
    )


def group_numbers_of(variant: ItemVariant, column: str) -> GroupNumbers | None:
    values = [variant.items[key].value(column) for key in variant.order]
    return group_numbers([None if is_missing(value) else as_key(value) for value in values])


def on_shared_seeds(
    a: SeedTables, b: SeedTables, columns: UsedColumns
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
