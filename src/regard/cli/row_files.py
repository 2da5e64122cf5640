"""Files of rows that commands write: JSON lines, CSV or TSV by file name."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.files import write_text

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def check_format(file: Path, *, topic: str) -> None:
    """Check the target before the work, not after; `topic` is the command's."""
    if file.is_dir() or file.suffix not in (".jsonl", *SEPARATORS):
        raise UserError(
            f"{file} is a folder" if file.is_dir() else f"{file} has no known format",
            topic=topic,
            hint="Name a file that ends in .jsonl, .csv or .tsv.",
        )


def write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows atomically; in CSV and TSV the record's columns come first, and a column of
    ours that has the name of one of these is called `regard_item` and the like."""
    if file.suffix == ".jsonl":
        write_text(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return
    text = io.StringIO()
    taken = {name for row in rows for name in row.get("record", {})}
    flat = [{**row.get("record", {}), **_prediction(row, taken)} for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    writer = csv.DictWriter(text, names, delimiter=SEPARATORS[file.suffix], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    write_text(file, text.getvalue())


def _prediction(row: Mapping[str, Any], taken: Collection[str]) -> dict[str, Any]:
    """What was predicted for a row, under names that its file has not."""
    return {_free(key, taken): value for key, value in row.items() if key != "record"}


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"regard_{name}"
    return name
