"""Columns as arrays: what a Trainer of transformers predicts, saved as .npz or as JSON.

`predictions` may be logits (items, labels), of which the largest is the predicted label.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import UserError
from regard.studies.judging.columns import USUAL_NAMES
from regard.studies.judging.formats.archives import archive_read, check_sizes
from regard.studies.judging.item_table import ItemTable

SAVED_LIKE = "np.savez(file, predictions=output.predictions, label_ids=output.label_ids)"


def read_npz(path: Path) -> ItemTable:
    """Every array of the file as a column; pickled objects are never read."""
    hint = f"Write plain arrays: {SAVED_LIKE}."
    with archive_read(path, noun="not arrays", hint=hint):
        with zipfile.ZipFile(path) as archive:
            check_sizes(archive)
        with np.load(path, allow_pickle=False) as file:
            try:
                arrays = {name: file[name] for name in file.files}
            except ValueError as problem:
                if "pickle" not in str(problem):
                    raise
                raise UserError(
                    "pickled objects", topic="judge", where=str(path), hint=hint
                ) from None
    return arrays_table(path, arrays)


def arrays_table(path: Path, arrays: Mapping[str, Any]) -> ItemTable:
    """A table of arrays of one length; logits become labels."""
    columns = {name: _column(path, name, values) for name, values in arrays.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} has {length:,}" for name, length in lengths.items())
        raise UserError(
            f"arrays of unequal length: {counts}",
            topic="judge",
            where=str(path),
            hint="Give one value for each item in every array.",
        )
    n = next(iter(lengths.values()), 0)
    table = ItemTable(path.stem, columns, [f"row {row:,}" for row in range(1, n + 1)], str(path))
    return replace(table, kind="arrays")


def _column(path: Path, name: str, values: Any) -> list[Any]:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of unequal length
        return list(values)
    is_answer = name.lower() in USUAL_NAMES["predicted"]
    is_number = array.dtype.kind in "biuf"
    if array.ndim == 2 and is_answer and is_number and array.shape[1] > 1:
        unknown = np.flatnonzero(np.isnan(array).any(axis=1))
        if len(unknown):
            raise UserError(
                f"{name} has logits that are no number: {len(unknown):,} of {len(array):,} items, "
                f"the first is item {unknown[0] + 1:,}",
                topic="judge",
                where=str(path),
                hint="The largest of them is no prediction: find out where they come from.",
            )
        return [int(label) for label in array.argmax(axis=1)]
    if array.ndim == 2 and array.shape[1] == 1:
        return list(array[:, 0].tolist())
    if array.ndim != 1:
        raise UserError(
            f"{name} has the shape {array.shape}, not one value or one row of logits for each item",
            topic="judge",
            where=str(path),
            hint="Score each item first, and save the scores as an array of (items).",
        )
    return list(array.tolist())
