"""Questions and answers that a user types, appended to a file for the next fine-tuning.

The file has the columns of the run's task, so that `data.corpus = ["train.tsv", "kept.tsv"]` reads
both. A pair is appended in one write; a failed write leaves the file unchanged.
"""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import UserError, did_you_mean

SEPARATORS = {".tsv": "\t", ".tab": "\t", ".csv": ","}


@dataclass(frozen=True)
class PairFile:
    """A CSV or TSV file, existing or new, and its columns of questions and answers."""

    file: Path
    question: str
    answer: str

    def check(self) -> None:
        """Refuse a file to which no pair can be appended, before anybody types one."""
        if self.file.suffix.lower() not in SEPARATORS:
            raise self._error(
                "pairs are kept in CSV or TSV", hint="Give a name that ends in .tsv or .csv."
            )
        if self.file.is_dir() or not self.file.parent.is_dir():
            what = "is a folder" if self.file.is_dir() else "its folder does not exist"
            raise self._error(what, hint="Give a file in a folder that is there.")
        self._header()

    def append(self, question: str, answer: str) -> None:
        """Append one pair; a new file begins with its header."""
        header, is_new = self._header()
        cells = {self.question: _one_line(question), self.answer: _one_line(answer)}
        rows = [[cells.get(column, "") for column in header]]
        if is_new and not self._is_numbered:
            rows.insert(0, header)
        self._append("".join(map(self._format_row, rows)).encode())

    @property
    def _is_numbered(self) -> bool:
        """Whether columns are numbers 1, 2, …: the file has no header."""
        return self.question.isdecimal() and self.answer.isdecimal()

    @property
    def _separator(self) -> str:
        return SEPARATORS[self.file.suffix.lower()]

    def _header(self) -> tuple[list[str], bool]:
        """The columns of a row, in order, and whether the file has no row yet."""
        first = self._first_row()
        if self._is_numbered:
            columns = max(int(self.question), int(self.answer), len(first))
            return [str(number) for number in range(1, columns + 1)], not first
        if not first:
            return [self.question, self.answer], True
        for column in (self.question, self.answer):
            if column not in first:
                raise self._error(
                    f"there is no column {column!r}{did_you_mean(column, first)}",
                    hint="Give a file with the columns of the run's task, or a new one.",
                )
        return first, False

    def _first_row(self) -> list[str]:
        if not self.file.exists():
            return []
        try:
            with self.file.open(encoding="utf-8-sig", newline="") as opened:
                if self._separator == "\t":  # TSV has no quoting
                    line = next((line for line in opened if line.strip()), "")
                    return line.rstrip("\r\n").split("\t") if line else []
                return next((row for row in csv.reader(opened) if any(row)), [])
        except (UnicodeDecodeError, csv.Error) as problem:
            raise self._error(f"the file cannot be read ({problem})") from None

    def _format_row(self, cells: list[str]) -> str:
        if self._separator == "\t":
            return "\t".join(cells) + "\n"
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue()

    def _append(self, line: bytes) -> None:
        handle = os.open(self.file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(handle).st_size
            if size:
                os.lseek(handle, -1, os.SEEK_END)
                line = line if os.read(handle, 1) == b"\n" else b"\n" + line
            try:
                written = os.write(handle, line)
                if written < len(line):
                    written += os.write(handle, line[written:])  # a full disk says so here
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)

    def _error(self, what: str, *, hint: str = "") -> UserError:
        return UserError(what, topic="learn", where=str(self.file), hint=hint)


def _one_line(text: str) -> str:
    """The text with all white space as single spaces: tabs and line ends would end a cell."""
    return " ".join(text.split())
