"""Parallel text files, aligned line by line: `train.{en,de}.gz` gives one record per line.

The words in the braces name the columns. Files with different numbers of lines are refused before
reading: truncated to the shorter one they would look aligned and might not be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.readers.formats import file_format
from regard.data.readers.lines import read_lines
from regard.data.readers.records import RawRow, Record, RecordReader, data_error

BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def parallel_files(name: str, path: Path) -> dict[str, Path]:
    """The file of each column; empty if the name has no braces."""
    found = BRACES.findall(name)
    if not found:
        return {}
    columns = found[0].split(",")
    if len(found) > 1 or len(set(columns)) < len(columns) or not all(map(str.strip, columns)):
        raise data_error(
            name,
            "these braces do not name the columns of parallel files",
            hint="Write one pair, with different words: train.{en,de}.",
        )
    files = {column: Path(BRACES.sub(column.strip(), str(path))) for column in columns}
    for file in files.values():
        if not file.is_file():
            raise data_error(
                name, f"there is no file {file}", hint="Check the words in the braces."
            )
        if file_format(file) != "txt":
            raise data_error(
                name,
                f"{file.name} is a table, and parallel files are plain text",
                hint="Give the table alone: its columns are parallel already.",
            )
    return {column.strip(): file for column, file in files.items()}


def read_parallel(files: Mapping[str, Path], reader: RecordReader) -> Iterator[Record]:
    """One record for each line."""
    if reader.options.unit != "line":
        raise reader.error(
            f"parallel files are aligned by line, and data.unit = {reader.options.unit!r}",
            hint='Set data.unit = "line".',
        )
    names = reader.match_columns(list(files))
    _check_same_length(files, reader)
    used = sorted(set(names.values()))
    aligned = zip(*(read_lines(files[name]) for name in used), strict=True)
    rows = (
        RawRow(f"line {number:,}", {role: lines[used.index(name)] for role, name in names.items()})
        for number, lines in enumerate(aligned, start=1)
    )
    yield from reader.records(rows)


def _check_same_length(files: Mapping[str, Path], reader: RecordReader) -> None:
    counts = {file: sum(1 for _ in read_lines(file)) for file in files.values()}
    if len(set(counts.values())) > 1:
        raise reader.error(
            "different numbers of lines: "
            + ", ".join(f"{file.name} has {count:,}" for file, count in counts.items()),
            hint="Give files that are aligned line by line.",
        )
