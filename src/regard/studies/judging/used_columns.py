"""The columns of item tables that a comparison uses, and what was assumed of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from regard.studies.judging.columns import (
    SAME_DOCUMENT,
    USUAL_NAMES,
    find_column,
    find_frame_index,
    keys,
)
from regard.studies.judging.item_metric import ItemMetric
from regard.studies.judging.item_table import ItemTable
from regard.studies.judging.settings import JudgeSettings


@dataclass
class UsedColumns:
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


def find_columns(
    tables: Sequence[ItemTable], settings: JudgeSettings, metric: ItemMetric
) -> UsedColumns:
    columns = UsedColumns(
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
