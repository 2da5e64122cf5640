"""A JSON document: a log of inspect-ai, rows, or columns; or JSON lines after all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.toml import flatten
from regard.core.untrusted import parse_json, read_limited
from regard.studies.judging.formats.arrays import arrays_table
from regard.studies.judging.formats.inspect_logs import is_log, samples_of, samples_table
from regard.studies.judging.formats.rows import read_rows
from regard.studies.judging.item_table import ItemTable


def read_json_document(path: Path) -> ItemTable:
    try:
        document = parse_json(read_limited(path))
    except (OSError, ValueError):
        return read_rows(path)
    if isinstance(document, list) and all(isinstance(row, Mapping) for row in document):
        rows = ((f"row {number:,}", flatten(row)) for number, row in enumerate(document, 1))
        return ItemTable.of_rows(rows, name=path.stem, source=str(path))
    if isinstance(document, Mapping):
        return _of_object(path, document)
    raise _no_items(path, "a JSON document that holds no rows")


def _of_object(path: Path, document: Mapping[str, Any]) -> ItemTable:
    if is_log(document):
        return samples_table(path, document["eval"], samples_of(document))
    if "eval" in document and "status" in document:
        raise _no_items(path, "a log of inspect-ai without samples")
    columns = {key: value for key, value in document.items() if isinstance(value, list)}
    if columns:
        return arrays_table(path, columns)
    if "results" in document:
        raise _no_items(path, "scores of whole tasks, not of their items", "--log_samples")
    raise _no_items(path, "a JSON object that holds no columns of items")


def _no_items(path: Path, what: str, option: str = "") -> UserError:
    hint = (
        f"Evaluate with {option}, and give the samples_….jsonl file."
        if option
        else "Give one object for each item, or a list for each column."
    )
    return UserError(what, topic="judge", where=str(path), hint=hint)
