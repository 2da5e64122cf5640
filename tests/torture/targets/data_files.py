"""Data files that are damaged, or were never what they say: one sentence with the place."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.torture.commands import flip_bits
from tests.torture.harness import Failure, Target

from regard.core.errors import UserError
from regard.data.readers.formats import DropCounts, ReadOptions, read_records
from regard.data.readers.records import Column

WORDS = ("cat", "Hund", "été", "river, wide", 'the "ship"', "日本語", "", "\u2028", "a\nb", "1e400")
COLUMN_SETS = (
    {"text": Column()},
    {"text": Column(), "label": Column("label", "task.label", "label")},
    {"question": Column("question", "task.question"), "answers": Column("answers", "x", "texts")},
    None,
)


def rows(generator: random.Random) -> list[dict[str, str]]:
    count = generator.choice((1, 3, 40))
    return [
        {
            "text": " ".join(generator.choices(WORDS, k=generator.randrange(6))),
            "label": generator.choice(WORDS),
        }
        for _ in range(count)
    ]


def as_table(generator: random.Random, separator: str) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, ["text", "label"], delimiter=separator, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(generator))
    return out.getvalue().encode()


def as_lines(generator: random.Random) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows(generator)).encode()


def as_squad(generator: random.Random) -> bytes:
    answers = [{"text": "cat", "answer_start": 2}]
    question = {"question": "who?", "id": "1", "answers": answers, "is_impossible": False}
    paragraph = {"context": "a cat", "qas": [question] * generator.randrange(4)}
    document = {"data": [{"title": "t", "paragraphs": [paragraph]}]}
    return json.dumps(document, indent=generator.choice((None, 1))).encode()


def as_parquet(generator: random.Random) -> bytes:
    buffer = io.BytesIO()
    columns = {name: [row[name] for row in rows(generator)] for name in ("text",)}
    compression = generator.choice(("snappy", "gzip", "zstd", "none"))
    pq.write_table(pa.table(columns), buffer, compression=compression)
    return buffer.getvalue()


FORMATS: dict[str, Callable[[random.Random], bytes]] = {
    ".csv": lambda g: as_table(g, g.choice(",;|")),
    ".tsv": lambda g: as_table(g, "\t"),
    ".jsonl": as_lines,
    ".json": as_squad,
    ".parquet": as_parquet,
    ".txt": lambda g: "\n".join(row["text"] for row in rows(g)).encode(),
}


def compress(content: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(content, mtime=0)
    if suffix == ".xz":
        return lzma.compress(content)
    return bytes(pa.compress(content, codec="zstd", asbytes=True)) if suffix else content


def trial(context: None, generator: random.Random, folder: Path) -> str:
    suffix = generator.choice(list(FORMATS))
    content = FORMATS[suffix](generator)
    if generator.random() < 0.15:
        suffix = generator.choice(list(FORMATS))  # named as something that it is not
    if generator.random() < 0.5:
        content = flip_bits(content, generator)
    compression = generator.choice(("", "", "", ".gz", ".xz", ".zst"))
    content = compress(content, compression)
    if generator.random() < 0.7:
        content = flip_bits(content, generator)
    file = folder / f"data{suffix}{compression}"
    file.write_bytes(content)
    options = ReadOptions(
        columns=generator.choice(COLUMN_SETS),
        unit=generator.choice(("line", "paragraph", "file")),
        skip_bad_rows=generator.random() < 0.5,
        header=generator.random() < 0.8,
    )
    try:
        records = list(read_records(file, options, DropCounts()))
    except UserError as problem:
        if "data" not in str(problem):
            raise Failure("crashed", f"an error without the file: {problem}") from None
        return "refused"
    for record in records:
        json.dumps(record, ensure_ascii=False).encode("utf-8", "strict")
    return "read"


TARGET = Target(
    "data files",
    "CSV, TSV, JSON lines, SQuAD, Parquet and text, compressed or not, damaged or misnamed",
    10_000,
    trial,
    batch=200,
)
