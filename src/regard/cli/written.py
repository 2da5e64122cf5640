"""Rows into a file of the form that its name asks for."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import write_text

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def write_rows(place: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """JSON lines, CSV or TSV; the file is whole or not there."""
    if place.suffix == ".jsonl":
        write_text(place, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return
    if place.suffix not in SEPARATORS:
        raise UserError(
            f"{place} could be many things",
            topic="predict",
            mend="End its name in .jsonl, .csv or .tsv.",
        )
    written = io.StringIO()
    flat = [{**row.get("record", {}), **_without_record(row)} for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    writer = csv.DictWriter(written, names, delimiter=SEPARATORS[place.suffix], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    write_text(place, written.getvalue())


def _without_record(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "record"}
