"""The [data] table of a recipe: sources, columns and splits that are large enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.corpus import Split
from regard.data.readers.formats import file_format
from regard.data.recognition import names
from regard.data.recognition.profile import as_text, is_missing
from regard.data.recognition.reading import LANGUAGE_MODEL, Reading
from regard.data.recognition.table import TableSample
from regard.evaluation.formatting import join_words
from regard.runs.proposals.language_model import propose_unit
from regard.runs.proposals.overrides import Overrides
from regard.runs.proposals.recipe_text import RecipeSetting
from regard.runs.proposals.recognise import SourceContents
from regard.runs.proposals.split_sizes import SplitSizes, propose_sizes
from regard.runs.recipe import Evaluate

HELD_OUT: tuple[Split, ...] = ("dev", "test")
WHY = {
    "dev": "fraction for choosing and early stopping",
    "test": "fraction for the final evaluation alone",
}
JUDGED_BY_ACCURACY = ("classification", "pairs", "extractive", "recall")


def missing_splits(found: SourceContents) -> list[Split]:
    """Those without files of their own."""
    return [split for split in HELD_OUT if split not in found.files.splits]


def fractions(splits: Sequence[Split], fraction: float) -> list[RecipeSetting]:
    return [RecipeSetting(split, fraction, WHY[split]) for split in splits]


def drawn_splits(
    found: SourceContents, table: TableSample, reading: Reading, group: str | None
) -> tuple[list[RecipeSetting], SplitSizes | None]:
    """Fractions for the splits without files or a column of their own."""
    if found.split_column is not None:
        return column_splits(found), None
    missing = missing_splits(found)
    shared = group or (reading.columns.get("context") if reading.task == "extractive" else None)
    units = table.rows
    unit = "rows"
    if shared is not None:
        units, unit = len({as_text(value) for value in table.columns[shared]}), "groups"
    sizes = propose_sizes(units, unit=unit, max_rows=Evaluate().documents)
    return fractions(missing, sizes.fraction), sizes


def column_splits(found: SourceContents) -> list[RecipeSetting]:
    """Dev and test by the column that names each row's split."""
    settings = []
    for split in HELD_OUT:
        values = sorted(one for one in _rows_by_value(found) if names.split_of_name(one) == split)
        settings.append(
            RecipeSetting(split, {found.split_column: values}, "as the column says")
            if values
            else RecipeSetting(split, 0.1, "fraction of the rest")
        )
    return settings


def given_splits(found: SourceContents, reading: Reading) -> Iterator[str]:
    """What dev shows that has files, or a column that names it."""
    table, said = found.tables.get("dev"), []
    rows = table.rows if table is not None else 0
    if found.split_column is not None:
        counts = _rows_by_value(found)
        rows = sum(n for value, n in counts.items() if names.split_of_name(value) == "dev")
        listed = join_words(f"{value} {n:,}" for value, n in counts.most_common())
        said.append(f"as {found.split_column!r} says, {listed} rows")
    sizes = SplitSizes(1.0, rows, "rows", Evaluate().documents)
    shown = sizes.difference() if rows else None
    if shown is not None and reading.task in JUDGED_BY_ACCURACY:
        used = min(rows, sizes.max_rows)
        said.append(f"the {used:,} dev rows show differences above {shown:.2f}")
    if said:
        yield ": ".join(["splits", *said])


def _rows_by_value(found: SourceContents) -> Counter[str]:
    """How many rows have each value of the column of splits."""
    assert found.table is not None
    assert found.split_column is not None
    values = found.table.columns[found.split_column]
    return Counter(as_text(value) for value in values if not is_missing(value))


def data_settings(
    found: SourceContents, reading: Reading, overrides: Overrides
) -> Iterator[RecipeSetting]:
    splits = found.files.splits
    yield RecipeSetting("corpus", _one_or_list(splits["train"]))
    if reading.task == LANGUAGE_MODEL:
        if found.table is not None or overrides.texts:
            yield RecipeSetting("text", reading.columns["text"], "the column with the text")
        elif (unit := document_unit(found, overrides)) not in (None, "line"):
            yield RecipeSetting("unit", unit, "what one document is")
    for split in HELD_OUT:
        if split in splits:
            yield RecipeSetting(split, _one_or_list(splits[split]))
    if found.table is not None and not found.table.header:
        yield RecipeSetting("header", False, "the first line is a row; columns are 1, 2, …")
    if any(table.bad_rows for table in found.tables.values()):
        yield RecipeSetting("skip_bad_rows", True, "rows with another number of cells, counted")
    elif any(lacks_targets(table, reading) for table in found.tables.values()):
        yield RecipeSetting("skip_bad_rows", True, "rows without a label, counted")


def lacks_targets(table: TableSample, reading: Reading) -> bool:
    """Whether rows lack what is predicted; of a question, no answer is one too."""
    if reading.target is None or reading.task == "extractive":
        return False
    return any(map(is_missing, table.columns.get(reading.target, ())))


def group_setting(group: str | None) -> list[RecipeSetting]:
    return [] if group is None else [RecipeSetting("group", group, "each value stays in one split")]


def document_unit(found: SourceContents, overrides: Overrides) -> Any:
    """The document unit of plain text; None for tables and what is no file."""
    if overrides.unit is not None:
        return overrides.unit
    first = Path(found.files.splits["train"][0])
    if found.table is not None or not first.is_file() or file_format(first) != "txt":
        return None
    return propose_unit(first)


def _one_or_list(sources: Sequence[str]) -> str | list[str]:
    return sources[0] if len(sources) == 1 else list(sources)
