"""The [data] table of a recipe: sources, columns and splits that are large enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.corpus import Split
from regard.data.readers.formats import file_format
from regard.data.recognition import names
from regard.data.recognition.profile import as_text, is_missing
from regard.data.recognition.reading import LANGUAGE_MODEL, Reading
from regard.data.recognition.table import TableSample
from regard.runs.proposals.language_model import propose_unit
from regard.runs.proposals.recipe_text import RecipeSetting
from regard.runs.proposals.recognise import Recognised, Wishes
from regard.runs.proposals.split_sizes import SplitSizes, propose_sizes
from regard.runs.recipe import Evaluate

HELD_OUT: tuple[Split, ...] = ("dev", "test")
WHY = {
    "dev": "fraction for choosing and early stopping",
    "test": "fraction for the final evaluation alone",
}
JUDGED_BY_ACCURACY = ("classification", "pairs", "extractive", "recall")


def missing_splits(found: Recognised) -> list[Split]:
    """Those without files of their own."""
    return [split for split in HELD_OUT if split not in found.files.splits]


def fractions(splits: Sequence[Split], fraction: float) -> list[RecipeSetting]:
    return [RecipeSetting(split, fraction, WHY[split]) for split in splits]


def drawn_splits(
    found: Recognised, table: TableSample, reading: Reading, group: str | None
) -> tuple[list[RecipeSetting], SplitSizes | None]:
    """Fractions for the splits without files or a column of their own."""
    if found.split_column is not None:
        values = {as_text(one) for one in table.columns[found.split_column] if not is_missing(one)}
        settings = []
        for split in HELD_OUT:
            own = sorted(one for one in values if names.split_of_name(one) == split)
            by_value = {found.split_column: own}
            settings.append(
                RecipeSetting(split, by_value, "as the column says")
                if own
                else RecipeSetting(split, 0.1, "fraction of the rest")
            )
        return settings, None
    missing = missing_splits(found)
    shared = group or (reading.columns.get("context") if reading.task == "extractive" else None)
    units = table.rows
    unit = "rows"
    if shared is not None:
        units, unit = len({as_text(value) for value in table.columns[shared]}), "groups"
    sizes = propose_sizes(units, unit=unit, max_rows=Evaluate().documents)
    return fractions(missing, sizes.fraction), sizes


def given_splits(found: Recognised, reading: Reading) -> Iterator[str]:
    """What dev files show."""
    table = found.tables.get("dev")
    if table is None or reading.task not in JUDGED_BY_ACCURACY:
        return
    sizes = SplitSizes(1.0, table.rows, "rows", Evaluate().documents)
    shown = sizes.difference()
    if shown is not None:
        used = min(table.rows, sizes.max_rows)
        yield f"splits: the {used:,} dev rows show differences above {shown:.2f}"


def data_settings(found: Recognised, reading: Reading, wishes: Wishes) -> Iterator[RecipeSetting]:
    splits = found.files.splits
    yield RecipeSetting("corpus", _one_or_list(splits["train"]))
    if reading.task == LANGUAGE_MODEL:
        if found.table is not None or wishes.texts:
            yield RecipeSetting("text", reading.columns["text"], "the column with the text")
        elif (unit := document_unit(found, wishes)) not in (None, "line"):
            yield RecipeSetting("unit", unit, "what one document is")
    for split in HELD_OUT:
        if split in splits:
            yield RecipeSetting(split, _one_or_list(splits[split]))
    if found.table is not None and not found.table.header:
        yield RecipeSetting("header", False, "the first line is a row; columns are 1, 2, …")
    if any(table.bad_rows for table in found.tables.values()):
        yield RecipeSetting("skip_bad_rows", True, "rows with another number of cells, counted")


def group_setting(group: str | None) -> list[RecipeSetting]:
    return [] if group is None else [RecipeSetting("group", group, "each value stays in one split")]


def document_unit(found: Recognised, wishes: Wishes) -> Any:
    """The document unit of plain text; None for tables and what is no file."""
    if wishes.unit is not None:
        return wishes.unit
    first = Path(found.files.splits["train"][0])
    if found.table is not None or not first.is_file() or file_format(first) != "txt":
        return None
    return propose_unit(first)


def _one_or_list(sources: Sequence[str]) -> str | list[str]:
    return sources[0] if len(sources) == 1 else list(sources)
