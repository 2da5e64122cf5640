"""Files that are no text: archives, workbooks, PDFs, pages, known by their first bytes.

Each is refused with what it is and how to get at what is in it; nothing in it is opened.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from regard.data.readers.records import data_error


class Foreign(NamedTuple):
    what: str
    hint: str


OFFICE = "Save a sheet as CSV, or a document as plain text."
ZIP = b"PK\x03\x04"
"Workbooks and documents are ZIP archives, too."
RENAME = "Let its name end in {}, or decompress it."
SIGNATURES: dict[bytes, Foreign] = {
    ZIP: Foreign("an archive, or a workbook or document of Office", f"Unpack it. {OFFICE}"),
    b"\xd0\xcf\x11\xe0": Foreign("a workbook or document of Office", OFFICE),
    b"%PDF-": Foreign("a PDF", "Save its text as .txt."),
    b"\x89PNG": Foreign("a picture", "Give text, or a table."),
    b"\xff\xd8\xff": Foreign("a picture", "Give text, or a table."),
    b"SQLite format 3": Foreign("a database", "Export a table as CSV."),
    b"PAR1": Foreign("a Parquet file", "Let its name end in .parquet."),
    b"\x1f\x8b": Foreign("compressed by gzip", RENAME.format(".gz")),
    b"\xfd7zXZ": Foreign("compressed by xz", RENAME.format(".xz")),
    b"\x28\xb5\x2f\xfd": Foreign("compressed by zstd", RENAME.format(".zst")),
    b"version https://git-lfs": Foreign(
        "a pointer of Git LFS, not the file itself", "Fetch the file: git lfs pull."
    ),
}
PICKLE = re.compile(rb"\x80[\x02-\x05][\x95\]}(c]")
PAGE = re.compile(rb"\s*(<!doctype html|<html)", re.IGNORECASE)
OFFICE_NAMES = re.compile(r"\.(xlsx|xlsm|docx|pptx|ods|odt)$", re.IGNORECASE)
TABLES = re.compile(r"\.(csv|tsv|tab|jsonl|ndjson|json)$", re.IGNORECASE)


def refuse_foreign(path: Path, first: bytes) -> None:
    """Raise if a text file, of which `first` are the first bytes, is something else."""
    found = next((one for start, one in SIGNATURES.items() if first.startswith(start)), None)
    if first.startswith(ZIP) and OFFICE_NAMES.search(path.name):
        found = Foreign("a workbook or document of Office", OFFICE)
    elif first.startswith(ZIP) and path.suffix.lower() == ".zip":
        found = Foreign("a ZIP archive", "Unpack it, and give what is in it.")
    elif PICKLE.match(first):
        found = Foreign(
            "a pickle, which may run code and is never opened",
            "Write the data as CSV, JSON lines or Parquet.",
        )
    elif path.suffix.lower() == ".ipynb":
        found = Foreign("a notebook", "Write its text or its data into a file of their own.")
    elif TABLES.search(path.name) and PAGE.match(first):
        found = Foreign(
            "a web page, not a table", "Download the file itself, not the page that shows it."
        )
    if found is not None:
        raise data_error(path, f"this is {found.what}", hint=found.hint)
