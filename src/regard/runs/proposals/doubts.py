"""What in a table looks like a mistake of the file, and what would cure it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from regard.data.numbers import THOUSANDS
from regard.data.recognition.profile import as_text, is_missing, profile_column
from regard.data.recognition.reading import Reading
from regard.data.recognition.table import TableSample, repeated_headers
from regard.evaluation.formatting import quantity

MISSING = re.compile(r"nan|#?n/?a|null|none|nil|-|\?", re.IGNORECASE)
"Words by which programs write that there is no value."
NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?")
ODD_SEPARATOR = re.compile(r"\w+ ?[:^~#!/] ?\w+")


def table_doubts(table: TableSample, reading: Reading) -> Iterator[str]:
    if again := repeated_headers(table):
        repeat = "repeats" if again == 1 else "repeat"
        yield f"{quantity(again, 'rows')} of {table.path.name} {repeat} the header line"
    if "" in table.columns and profile_column("", table.columns[""]).kind in ("label", "text"):
        yield "a column without a name is left out: name it, or remove a title above the header"
    if len(table.columns) == 1 and ODD_SEPARATOR.fullmatch(next(iter(table.columns))):
        yield "cells are separated by commas, semicolons, tabs or bars: this table has one column"
    for name, values in table.columns.items():
        if example := ambiguous_number(values):
            yield (
                f"{name!r} has numbers such as {example}, which may be decimal or in thousands, "
                "so they are not read as numbers: write them with a point"
            )
    if reading.task in ("classification", "pairs"):
        label = reading.columns["label"]
        found = {as_text(one) for one in table.columns[label] if not is_missing(one)}
        if odd := set(filter(MISSING.fullmatch, found)):
            shown = ", ".join(map(repr, sorted(odd)))
            yield f"{shown} counts as a class of {label!r}: leave the cell empty if it means none"


def ambiguous_number(values: Sequence[Any]) -> str:
    """The first 1,234 of a column that holds numbers alone, were this one; else empty."""
    texts = [as_text(value) for value in values if not is_missing(value)]
    if not all(map(NUMBER.fullmatch, texts)):
        return ""
    return next(filter(THOUSANDS.fullmatch, texts), "")
