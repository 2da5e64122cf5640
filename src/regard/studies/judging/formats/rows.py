"""Tables of rows: JSON lines, CSV, TSV and Parquet, compressed or not.

Nested objects become columns with dotted names, such as `doc.title`. The samples that
lm-evaluation-harness writes with --log_samples are JSON lines of its own columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.toml import flatten
from regard.data.readers.formats import read_records, table_header
from regard.data.readers.records import DropCounts, ReadOptions
from regard.studies.judging.item_table import LM_EVAL, ItemTable

LM_EVAL_COLUMNS = {"doc_id", "doc", "resps", "filtered_resps"}
"What every row of lm-evaluation-harness has."
LM_EVAL_DROPPED = {"arguments", "resps", "filtered_resps", "metrics"}
"Prompts and answers, which may be long and decide nothing."
LM_EVAL_FILE = re.compile(r"samples_(?P<task>.+)_\d{4}-\d\d-\d\dT[\d.-]+")


def read_rows(path: Path) -> ItemTable:
    """Every row of the file; blank lines are skipped."""
    records = _records(path)
    first = next(records, None)
    if first is None:
        return ItemTable(path.stem, {}, [], str(path))
    if first[1].keys() >= LM_EVAL_COLUMNS:
        return _lm_eval(path, first, records)
    rows = ((at, flatten(record)) for at, record in _chain(first, records))
    return ItemTable.of_rows(rows, name=path.name.split(".")[0], source=str(path))


Row = tuple[str, Mapping[str, Any]]


def _lm_eval(path: Path, first: Row, records: Iterator[Row]) -> ItemTable:
    """Called after the folder that lm-evaluation-harness makes for the model."""
    rows = (
        (at, flatten({key: value for key, value in row.items() if key not in LM_EVAL_DROPPED}))
        for at, row in _chain(first, records)
    )
    table = ItemTable.of_rows(rows, name=path.stem, source=str(path))
    named = LM_EVAL_FILE.fullmatch(path.stem)
    name = path.absolute().parent.name if named else path.stem
    return replace(
        table,
        kind=LM_EVAL,
        name=name,
        task=named["task"] if named else "",
        scores=tuple(map(str, first[1].get("metrics") or ())),
    )


def _chain(first: Row, rest: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rest


def _records(path: Path) -> Iterator[Row]:
    try:
        _check_header(path)
        for record in read_records(path, ReadOptions(columns=None), DropCounts()):
            yield record.at.removeprefix(f"{path}, "), record
    except UserError as problem:
        # A reader of training data proposes settings of a recipe.
        raise UserError(
            problem.what,
            topic="judge",
            where=problem.where,
            hint=_without_settings(problem.hint),
        ) from None


def _check_header(path: Path) -> None:
    """Of two columns of one name it would be chance which is judged."""
    header = table_header(path)
    for name in filter(None, header):
        if header.count(name) > 1:
            what = f"{header.count(name)} columns are called {name}"
            hint = "Rename all but one."
            raise UserError(what, topic="judge", where=str(path), hint=hint)


def _without_settings(hint: str) -> str:
    is_of_training = "data." in hint or '"text"' in hint
    return "Correct it, or write the file again." if is_of_training else hint
