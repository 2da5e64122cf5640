"""Text files that say the same line by line: `train.{en,de}.gz` is one record a line.

The words in the braces name the columns. Files that differ in their number of lines are refused
before a line is read: cut to the shorter one they would look aligned, and might not be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.readers.compression import blocks
from regard.data.readers.formats import format_of
from regard.data.readers.lines import lines
from regard.data.readers.reading import RawRow, Record, RecordReader, complain

BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def parallel_files(name: str, path: Path) -> dict[str, Path]:
    """The file of each column; nothing where a name has no braces."""
    found = BRACES.findall(name)
    if not found:
        return {}
    columns = found[0].split(",")
    if len(found) > 1 or len(set(columns)) < len(columns) or not all(map(str.strip, columns)):
        raise complain(
            name,
            "these braces do not name the columns of parallel files",
            hint="Write one pair, with different words: train.{en,de}.",
        )
    files = {column: Path(BRACES.sub(column.strip(), str(path))) for column in columns}
    for file in files.values():
        if not file.is_file():
            raise complain(name, f"there is no file {file}", hint="Check the words in the braces.")
        if format_of(file) != "txt":
            raise complain(
                name,
                f"{file.name} is a table, and parallel files are plain text",
                hint="Give the table alone: its columns are parallel already.",
            )
    return {column.strip(): file for column, file in files.items()}


def read_parallel(files: Mapping[str, Path], visit: RecordReader) -> Iterator[Record]:
    """One record for each line that the files share."""
    if visit.reading.unit != "line":
        raise visit.complain(
            f"parallel files are aligned by line, and data.unit = {visit.reading.unit!r}",
            hint='Set data.unit = "line".',
        )
    names = visit.found(list(files))
    _refuse_other_lengths(files, visit)
    wanted = sorted(set(names.values()))
    together = zip(*(lines(files[name]) for name in wanted), strict=True)
    rows = (
        RawRow(f"line {number:,}", {role: line[wanted.index(name)] for role, name in names.items()})
        for number, line in enumerate(together, start=1)
    )
    yield from visit.records(rows)


def _refuse_other_lengths(files: Mapping[str, Path], visit: RecordReader) -> None:
    counts = {file: _count_lines(file) for file in files.values()}
    if len(set(counts.values())) > 1:
        raise visit.complain(
            "different numbers of lines: "
            + ", ".join(f"{file.name} has {count:,}" for file, count in counts.items()),
            hint="Give files that say the same line by line.",
        )


def _count_lines(path: Path) -> int:
    count, last = 0, b"\n"
    for block in blocks(path):
        count += block.count(b"\n")
        last = block[-1:]
    return count + (last != b"\n")
