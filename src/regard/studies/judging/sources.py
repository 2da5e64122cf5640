"""What the user gives, as tables with names: files, or values in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import UserError
from regard.core.files import sha256
from regard.studies.judging.columns import USUAL_NAMES
from regard.studies.judging.formats import read_item_file
from regard.studies.judging.item_table import ItemTable, as_key
from regard.studies.outcome import ResultSource

SCORE = "score"
"The column of a bare array if the metric has no name."


def read_files(files: Sequence[tuple[str, Path]]) -> list[ItemTable]:
    """The items of (variant, file); a variant without a name is called after its file."""
    paths = [path for _, path in files]
    for number, path in enumerate(paths):
        if path.exists() and any(path.samefile(one) for one in paths[:number] if one.exists()):
            raise UserError(
                "the same file twice",
                topic="judge",
                where=str(path),
                hint="Give another file; a comparison with itself shows nothing.",
            )
    tables = [read_item_file(path) for path in paths]
    own_names = [table.name for table in tables]
    if len(set(own_names)) < len(own_names):
        own_names = distinct_names([Path(table.source) for table in tables])
    return [
        replace(table, name=name or own)
        for table, own, (name, _) in zip(tables, own_names, files, strict=True)
    ]


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """The first part of the paths that tells the files apart: `a` and `b` of runs/a/items/dev.jsonl
    and runs/b/items/dev.jsonl."""
    parts = list(zip(*(path.absolute().parts for path in paths), strict=False))
    apart = next((part for part in parts if len(set(part)) == len(part)), None)
    if apart is None:
        return [str(path) for path in paths]
    stems = [Path(part).stem for part in apart]
    return stems if len(set(stems)) == len(stems) else list(apart)


def tables_of(
    results: Sequence[Any], *, metric: str | None, variant: str | None
) -> list[ItemTable]:
    """Tables of what `regard.judge` is called with: results, or one mapping of them by name."""
    if len(results) == 1 and isinstance(results[0], Mapping) and _is_by_name(results[0], variant):
        return [_table(str(name), one, metric) for name, one in results[0].items()]
    if all(isinstance(one, str | PathLike) for one in results):
        return read_files([("", Path(one)) for one in results])
    return [_table(f"results {number}", one, metric) for number, one in enumerate(results, 1)]


def describe(tables: Iterable[ItemTable]) -> list[ResultSource]:
    """Files by name and content, so that a report shows what was judged."""
    return [
        ResultSource(
            table.name,
            table.source,
            table.kind,
            len(table),
            sha256(Path(table.source)) if table.source else "",
        )
        for table in tables
    ]


def _is_by_name(results: Mapping[Any, Any], variant: str | None) -> bool:
    """Whether a mapping holds results by name; one with a column of variants is a table."""
    columns = {variant.lower()} if variant else set(USUAL_NAMES["variant"])
    return not columns & {str(key).lower() for key in results}


def _table(name: str, value: Any, metric: str | None) -> ItemTable:
    """A table of a path, a frame, a mapping of columns, rows, or an array of scores."""
    if isinstance(value, str | PathLike):
        return replace(read_item_file(Path(value)), name=name)
    columns = _columns(value)
    if (
        columns is None
        and isinstance(value, Sequence)
        and all(isinstance(row, Mapping) for row in value)
    ):
        rows = ((f"row {number:,}", row) for number, row in enumerate(value, 1))
        return ItemTable.of_rows(rows, name=name)
    if columns is None:
        columns = _scores(name, value, metric or SCORE)
    lengths = {key: len(values) for key, values in columns.items()}
    if len(set(lengths.values())) != 1 or not next(iter(lengths.values())):
        counts = ", ".join(f"{key} has {length:,}" for key, length in lengths.items())
        raise UserError(
            f"columns of unequal length, or empty: {counts or 'none'}",
            topic="judge",
            where=name,
            hint="Give one value for each item in every column.",
        )
    locations = [f"row {number:,}" for number in range(1, next(iter(lengths.values())) + 1)]
    return ItemTable(name, columns, locations, kind="values")


def _columns(value: Any) -> dict[str, list[Any]] | None:
    """Columns by name of a mapping, a data frame or an Arrow table; None of anything else."""
    names = value if isinstance(value, Mapping) else getattr(value, "column_names", None)
    if names is None:
        names = getattr(value, "columns", None)
    if names is None:
        return None
    return {str(name): _plain(value[name]) for name in names}


def _plain(column: Any) -> list[Any]:
    """Python values of an array, a tensor, a series or a list."""
    for convert in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, convert):
            values = getattr(column, convert)()
            return values if isinstance(values, list) else [values]
    return list(column)


def _scores(name: str, value: Any, metric: str) -> dict[str, list[Any]]:
    """(n,) scores of items, or (s, n) of seeds and items."""
    try:
        scores = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        scores = np.zeros(())
    if scores.ndim not in (1, 2) or not scores.size:
        raise UserError(
            f"of type {type(value).__name__}, and not what can be judged",
            topic="judge",
            where=name,
            hint="Give a path, a data frame, a mapping of columns, or scores (items) or "
            "(seeds, items).",
        )
    by_seed = np.atleast_2d(scores)
    seeds, n = by_seed.shape
    return {
        "id": [as_key(item) for item in range(1, n + 1)] * seeds,
        **({"seed": np.repeat(np.arange(seeds), n).tolist()} if scores.ndim == 2 else {}),
        metric: by_seed.ravel().tolist(),
    }
