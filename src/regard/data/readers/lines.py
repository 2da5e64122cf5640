"""Lines and plain-text documents of a UTF-8 file, decoded block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from regard.data.readers.compression import blocks
from regard.data.readers.reading import Record, RecordReader, Unit, complain


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends, LF or CRLF; a byte order mark is left out."""
    done = 0
    pending: list[bytes] = []  # pieces of a line that is longer than a block: joined once
    for block in blocks(path):
        end = block.rfind(b"\n") + 1
        if not end:
            pending.append(block)
            continue
        decoded = _decode(b"".join([*pending, block[:end]]), path, lines_before=done)
        for line in decoded[:-1].split("\n"):
            done += 1
            yield line.removesuffix("\r")
        pending = [block[end:]] if block[end:] else []
    if pending:
        yield _decode(b"".join(pending), path, lines_before=done).removesuffix("\r")


def _decode(raw: bytes, path: Path, *, lines_before: int) -> str:
    nul = raw.find(b"\0")
    if nul >= 0:
        line = lines_before + raw.count(b"\n", 0, nul) + 1
        raise complain(
            path,
            "a NUL byte, so this looks like a binary or UTF-16 file",
            at=f"line {line:,}",
            hint="Give text in UTF-8 (iconv -f utf-16 -t utf-8 converts it).",
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = lines_before + raw.count(b"\n", 0, problem.start) + 1
        byte = problem.start - raw.rfind(b"\n", 0, problem.start)
        raise complain(
            path,
            f"not valid UTF-8 (0x{raw[problem.start]:02x})",
            at=f"line {line:,}, byte {byte:,}",
            hint="Convert it, for example with iconv -f latin1 -t utf-8.",
        ) from None
    return text.removeprefix("\ufeff") if not lines_before else text


def read_plain(path: Path, visit: RecordReader) -> Iterator[Record]:
    """Plain text: a document a line, a paragraph or a file, in a column called `text`."""
    roles = visit.sole()
    for at, text in _units(path, visit.reading.unit):
        if text.strip():  # nothing else can be wrong with it, and there may be very many
            yield Record(dict.fromkeys(roles, text), f"{visit.name}{at}")
        else:
            visit.empty()


def _units(path: Path, unit: Unit) -> Iterator[tuple[str, str]]:
    """Where in the file each document stands, and its text."""
    if unit == "file":
        whole = "\n".join(lines(path))
        if whole.strip():
            yield "", whole
    elif unit == "paragraph":
        for number, text in enumerate(paragraphs(lines(path)), start=1):
            yield f", paragraph {number:,}", text
    else:
        for number, line in enumerate(lines(path), start=1):
            yield f", line {number:,}", line


def paragraphs(these: Iterable[str]) -> Iterator[str]:
    """Runs of lines that are not blank, joined by line ends."""
    run: list[str] = []
    for line in chain(these, [""]):
        if line.strip():
            run.append(line)
        elif run:
            yield "\n".join(run)
            run = []
