"""Text columns are detected from the first rows of a table."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regard.data.readers.columns import text_columns

ROWS = [{"id": 7, "title": "Up", "body": "A longer text."}, {"id": 8, "title": "On", "body": "So."}]


def write_csv(path: Path) -> None:
    _write_cells(path, ",")


def write_tsv(path: Path) -> None:
    _write_cells(path, "\t")


def _write_cells(path: Path, separator: str) -> None:
    rows = [list(ROWS[0]), *(map(str, row.values()) for row in ROWS)]
    path.write_text("".join(separator.join(row) + "\n" for row in rows))


def write_jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def write_parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), path)


@pytest.mark.parametrize("write", [write_csv, write_tsv, write_jsonl, write_parquet])
def test_text_columns_are_sorted_by_length(tmp_path: Path, write: object) -> None:
    assert callable(write)
    path = tmp_path / f"a.{write.__name__.removeprefix('write_')}"
    write(path)
    assert text_columns(path) == {"body": 8.5, "title": 2.0}


def test_plain_text_has_no_columns_and_bad_rows_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("words\n")
    assert text_columns(path) == {}
    table = tmp_path / "a.csv"
    table.write_text("id,body\n1,one\n2,two,three\n3,four\n")
    assert text_columns(table) == {"body": 3.5}
