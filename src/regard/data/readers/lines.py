"""Streaming readers of lines and plain-text documents, decoded block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from regard.core.untrusted import MAX_LINE_BYTES
from regard.data.readers.encoding import utf8_blocks
from regard.data.readers.records import Record, RecordReader, Unit, data_error


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, streamed, without line ends (LF, CRLF, or CR alone) and byte order
    mark."""
    done = 0
    pending: list[bytes] = []  # blocks of a line longer than a block, joined once
    for block in _with_line_feeds(utf8_blocks(path)):
        end = block.rfind(b"\n") + 1
        if not end:
            pending.append(block)
            if sum(map(len, pending)) > MAX_LINE_BYTES:
                raise data_error(
                    path,
                    f"longer than {MAX_LINE_BYTES >> 20} MB",
                    at=f"line {done + 1:,}",
                    hint="Write one document per line, or one file per document.",
                )
            continue
        decoded = _decode(b"".join([*pending, block[:end]]), path, lines_before=done)
        for line in decoded[:-1].split("\n"):
            done += 1
            yield line.removesuffix("\r")
        pending = [block[end:]] if block[end:] else []
    if pending:
        yield _decode(b"".join(pending), path, lines_before=done).removesuffix("\r")


def _with_line_feeds(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Lines of spreadsheets saved as "CSV (Macintosh)" end with CR: then no LF is in the file."""
    first = next(blocks, b"")
    if b"\n" in first or b"\r" not in first[:-1]:  # the last may begin CRLF
        yield from chain([first] if first else [], blocks)
        return
    for block in chain([first], blocks):
        yield block.replace(b"\r", b"\n")


def _decode(raw: bytes, path: Path, *, lines_before: int) -> str:
    nul = raw.find(b"\0")
    if nul >= 0:
        line = lines_before + raw.count(b"\n", 0, nul) + 1
        raise data_error(
            path,
            "a NUL byte, so this looks like a binary file, not like text",
            at=f"line {line:,}",
            hint="Give text, best in UTF-8; of a workbook save a sheet as CSV.",
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = lines_before + raw.count(b"\n", 0, problem.start) + 1
        byte = problem.start - raw.rfind(b"\n", 0, problem.start)
        raise data_error(
            path,
            f"not valid UTF-8 (0x{raw[problem.start]:02x}), nor text of Western Europe in cp1252",
            at=f"line {line:,}, byte {byte:,}",
            hint="Save it as UTF-8, or convert it: iconv -f ENCODING -t utf-8.",
        ) from None
    return text.removeprefix("\ufeff") if not lines_before else text


def read_plain_text(path: Path, reader: RecordReader) -> Iterator[Record]:
    """Plain text: one document per line, paragraph or file, in a column called `text`."""
    roles = reader.text_column_roles()
    for at, text in _documents(path, reader.options.unit):
        if text.strip():  # no other check is needed, and there may be very many lines
            yield Record(dict.fromkeys(roles, text), f"{reader.name}{at}")
        else:
            reader.drop_empty()


def _documents(path: Path, unit: Unit) -> Iterator[tuple[str, str]]:
    """The location of each document in the file, and its text."""
    if unit == "file":
        whole = "\n".join(read_lines(path))
        if whole.strip():
            yield "", whole
    elif unit == "paragraph":
        for number, text in enumerate(paragraphs(read_lines(path)), start=1):
            yield f", paragraph {number:,}", text
    else:
        for number, line in enumerate(read_lines(path), start=1):
            yield f", line {number:,}", line


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Runs of non-blank lines, joined by line ends."""
    run: list[str] = []
    for line in chain(lines, [""]):
        if line.strip():
            run.append(line)
        elif run:
            yield "\n".join(run)
            run = []
