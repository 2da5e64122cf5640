"""Rows of dev or test that stand in training, where these are files of their own."""

from __future__ import annotations

from collections.abc import Mapping

from regard.data.corpus import Split
from regard.data.overlap.normalise import normalise
from regard.data.recognition.profile import joined
from regard.data.recognition.reading import Reading
from regard.data.recognition.table import TableSample


def copied_rows(tables: Mapping[Split, TableSample], reading: Reading) -> str:
    """How many inputs of dev and test are inputs of training too, word for word; empty if none."""
    if len(tables) < 2:
        return ""
    trained = set(_inputs(tables["train"], reading))
    found = []
    for split, table in tables.items():
        if split != "train":
            copied = sum(text in trained for text in _inputs(table, reading))
            if copied:
                found.append(f"{copied:,} of {table.rows:,} rows of {split}")
    if not found:
        return ""
    stand = " and ".join(found)
    return f"overlap: {stand} stand in training, which drop_overlap leaves out of training"


def _inputs(table: TableSample, reading: Reading) -> list[str]:
    columns = (table.columns[name] for name in reading.inputs)
    return [
        "\0".join(normalise(joined(cell)) for cell in row)
        for row in zip(*columns, strict=True)
        if all(cell is not None for cell in row)
    ]
