"""Records out of files, streamed: text, CSV, TSV, JSON and Parquet, compressed or not.

A reader is a function (path, visit) → records. Memory does not grow with the file: lines are
decoded block by block, Parquet comes in record batches (a SQuAD document alone is held whole).
What cannot be read names file and line or row; what is left out (empty lines, bad rows where the
user allows it) is tallied by file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from regard.data.readers.compression import compression_of
from regard.data.readers.json_and_parquet import read_json, read_parquet
from regard.data.readers.lines import read_plain
from regard.data.readers.reading import (
    Column,
    DropCounts,
    ReadOptions,
    Record,
    RecordReader,
    Text,
    Unit,
)
from regard.data.readers.tables import read_csv, read_tsv

__all__ = [
    "Column",
    "DropCounts",
    "ReadOptions",
    "Record",
    "Text",
    "Unit",
    "format_of",
    "is_known_format",
    "read_records",
    "read_texts",
]

Reader = Callable[[Path, RecordReader], Iterator[Record]]
READERS: dict[str, Reader] = {
    "txt": read_plain,
    "csv": read_csv,
    "tsv": read_tsv,
    "jsonl": read_json,
    "parquet": read_parquet,
}
FORMATS = {
    ".txt": "txt",
    ".text": "txt",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}


def read_records(path: Path, reading: ReadOptions, dropped: DropCounts) -> Iterator[Record]:
    """Every record of one file, in order, by the format its name declares."""
    visit = RecordReader(str(path), reading, dropped)
    kind = format_of(path)
    if not reading.header and kind in ("jsonl", "parquet"):
        raise visit.complain(
            "data.header = false is for CSV and TSV; this file names its columns",
            hint="Take it out.",
        )
    return READERS[kind](path, visit)


def read_texts(path: Path, reading: ReadOptions, dropped: DropCounts) -> Iterator[str]:
    """Every document of one file: what its records hold in the role `text`."""
    return (record["text"] for record in read_records(path, reading, dropped))


def format_of(path: Path) -> str:
    """`csv` for reviews.csv and reviews.csv.gz; any name that says nothing is plain text."""
    plain = path.with_suffix("") if compression_of(path) else path
    return FORMATS.get(plain.suffix.lower(), "txt")


def is_known_format(path: Path) -> bool:
    """Whether the name itself says what the file holds."""
    plain = path.with_suffix("") if compression_of(path) else path
    return plain.suffix.lower() in FORMATS
