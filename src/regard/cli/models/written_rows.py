"""Rows into a file of the form that its name asks for."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.files import write_text

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def check_form(place: Path) -> None:
    """Asked before the rows are made: nobody waits for answers that cannot be written."""
    if place.is_dir() or place.suffix not in (".jsonl", *SEPARATORS):
        raise UserError(
            f"{place} is a folder" if place.is_dir() else f"{place} could be many things",
            topic="predict",
            hint="Name a file that ends in .jsonl, .csv or .tsv.",
        )


def write_rows(place: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """JSON lines, CSV or TSV; the file is whole or not there."""
    check_form(place)
    if place.suffix == ".jsonl":
        write_text(place, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return
    written = io.StringIO()
    flat = [{**row.get("record", {}), **_without_record(row)} for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    writer = csv.DictWriter(written, names, delimiter=SEPARATORS[place.suffix], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    write_text(place, written.getvalue())


def _without_record(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "record"}
