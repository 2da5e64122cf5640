"""Predictions in CSV: every column of the file that was read is still there, as it was."""

from __future__ import annotations

import csv
from pathlib import Path

from regard.cli.row_files import write_rows

RECORDS = (
    {"item": "a17", "text": "fine", "at": "Ulm"},
    {"item": "b03", "text": "dull", "at": "Bonn", "regard_at": "x"},
)


def test_a_column_of_the_file_is_never_replaced(tmp_path: Path) -> None:
    """An id called `item` was overwritten by the number of the row."""
    predictions = [
        {"predicted": "good", "item": number, "at": f"row {number + 1}", "record": record}
        for number, record in enumerate(RECORDS)
    ]
    write_rows(tmp_path / "out.csv", predictions)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, record, number in zip(rows, RECORDS, (0, 1), strict=True):
        assert record.items() <= row.items()
        assert row["regard_item"] == str(number)
        assert row["regard_regard_at"] == f"row {number + 1}"
        assert row["predicted"] == "good"
