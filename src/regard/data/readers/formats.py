"""File formats: records streamed from text, CSV, TSV, JSON, Parquet and CoNLL, compressed or not.

A reader is a function (path, RecordReader) → records. Streaming keeps memory constant: lines are
decoded block by block, Parquet in record batches (only a SQuAD document is held in memory). Errors
name file and line or row. Dropped rows (empty ones, bad ones if the user allows it) are counted by
file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from regard.data.readers.compression import file_compression
from regard.data.readers.conll import read_conll
from regard.data.readers.json_and_parquet import read_json, read_parquet
from regard.data.readers.lines import read_plain_text
from regard.data.readers.records import (
    Column,
    DropCounts,
    ReadOptions,
    Record,
    RecordReader,
    Unit,
)
from regard.data.readers.tables import csv_header, read_csv, read_tsv, tsv_header

__all__ = [
    "Column",
    "DropCounts",
    "ReadOptions",
    "Record",
    "Unit",
    "file_format",
    "is_known_format",
    "read_records",
    "read_texts",
    "table_header",
]

Reader = Callable[[Path, RecordReader], Iterator[Record]]
READERS: dict[str, Reader] = {
    "txt": read_plain_text,
    "csv": read_csv,
    "tsv": read_tsv,
    "jsonl": read_json,
    "parquet": read_parquet,
    "conll": read_conll,
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
    ".conll": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".iob2": "conll",
}


def read_records(path: Path, options: ReadOptions, dropped: DropCounts) -> Iterator[Record]:
    """Every record of one file, in order; the suffix decides the format."""
    reader = RecordReader(str(path), options, dropped)
    name = file_format(path)
    if not options.header and name in ("jsonl", "parquet", "conll"):
        raise reader.error(
            "data.header = false is for CSV and TSV; this file names its columns",
            hint="Remove it.",
        )
    return READERS[name](path, reader)


def read_texts(path: Path, options: ReadOptions, dropped: DropCounts) -> Iterator[str]:
    """Every document of one file: the role `text` of its records."""
    return (record["text"] for record in read_records(path, options, dropped))


def table_header(path: Path) -> list[str]:
    """The first row of a CSV or TSV file, which names its columns; empty for other formats."""
    headers = {"csv": csv_header, "tsv": tsv_header}
    name = file_format(path)
    return headers[name](path) if name in headers else []


def file_format(path: Path) -> str:
    """`csv` for reviews.csv and reviews.csv.gz; an unknown suffix is plain text."""
    plain = path.with_suffix("") if file_compression(path) else path
    return FORMATS.get(plain.suffix.lower(), "txt")


def is_known_format(path: Path) -> bool:
    """Whether the suffix is that of a known format."""
    plain = path.with_suffix("") if file_compression(path) else path
    return plain.suffix.lower() in FORMATS
