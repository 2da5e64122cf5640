"""Which column is what: as the user says, or as columns are usually called, and then it is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.core.printable import first_few
from regard.studies.judging.item_table import ItemTable, as_key, is_missing

Role = Literal["id", "seed", "group", "variant", "predicted", "truth"]
USUAL_NAMES: dict[Role, tuple[str, ...]] = {
    "id": (
        *("id", "item", "item_id", "doc_id", "example_id", "sample_id", "question_id"),
        *("qid", "uid", "guid", "idx", "index"),
    ),
    "seed": ("seed", "random_seed"),
    "group": (),  # what belongs together is said, and only proposed otherwise
    "variant": ("variant", "model", "method", "system"),
    "predicted": ("predicted", "prediction", "predictions", "pred", "preds", "y_pred"),
    "truth": (
        *("truth", "target", "gold", "label", "labels", "label_ids", "reference"),
        *("y_true", "ground_truth"),
    ),
}
FRAME_INDEX = ("__index_level_0__", "unnamed: 0", "")
"What the index of a data frame is called in the files that pandas writes."
SAME_DOCUMENT = "doc_hash"
"What lm-evaluation-harness writes to tell one document from another."


@dataclass(frozen=True)
class RowFilter:
    """`--where filter=strict-match`: the rows to judge."""

    column: str
    value: str

    def select(self, table: ItemTable) -> ItemTable:
        values = [as_key(value) for value in table.column(self.column, option="--where")]
        kept = [row for row, value in enumerate(values) if value == self.value]
        if not kept:
            found = list(dict.fromkeys(values))
            shown = first_few(found, 5)
            raise table.error(
                f"no row has {self.column} = {self.value}", hint=f"There {self.column} is {shown}."
            )
        return table.select(kept)


def find_column(tables: Sequence[ItemTable], role: Role, given: str | None) -> str | None:
    """The column of a role: the given one, which must be there, or the first usual name that
    every table has."""
    if given is not None:
        for table in tables:
            table.column(given, option=f"--{role}")
        return given
    shared = set.intersection(*(set(table.columns) for table in tables))
    by_lower_case = {name.lower(): name for name in sorted(shared, reverse=True)}
    return next(
        (by_lower_case[name] for name in USUAL_NAMES[role] if name in by_lower_case),
        None,
    )


def find_frame_index(tables: Sequence[ItemTable]) -> str | None:
    """The index of data frames, if it tells the items of every table apart and is the same in all:
    frames may be sorted differently."""
    for name in tables[0].columns:
        if name.lower() not in FRAME_INDEX or any(name not in table.columns for table in tables):
            continue
        values = [table.columns[name] for table in tables]
        sets = [{as_key(one) for one in column if not is_missing(one)} for column in values]
        if all(len(one) == len(column) for one, column in zip(sets, values, strict=True)) and all(
            one == sets[0] for one in sets
        ):
            return name
    return None


def keys(table: ItemTable, column: str, *, what: str) -> list[str]:
    """A column's values as keys; a missing one is an error."""
    values = table.columns[column]
    for row, value in enumerate(values):
        if is_missing(value):
            raise table.error(
                f"no {what}: {column} is empty",
                row=row,
                hint=f"Every row needs its {what}, or name another column with --{what}.",
            )
    return [as_key(value) for value in values]


def separating_columns(table: ItemTable, rows: Sequence[int], used: set[str]) -> list[str]:
    """Columns that tell rows of one item apart and have few values: what mixes several results
    in one file."""
    return [
        name
        for name, values in table.columns.items()
        if name not in used
        and all(isinstance(values[row], str | int) for row in rows)
        and len({as_key(values[row]) for row in rows}) == len(rows)
        and _has_few_values(values)
    ][:3]


def _has_few_values(values: Sequence[Any]) -> bool:
    return len({as_key(value) for value in values}) <= max(2, len(values) // 4)
