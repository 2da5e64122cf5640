"""Streaming decompression of .gz, .xz and .zst files, and errors of unreadable files."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from regard.core.errors import UserError

BLOCK_BYTES = 1 << 20


def open_zstd(path: Path) -> IO[bytes]:
    import pyarrow as pa

    stream: IO[bytes] = pa.CompressedInputStream(pa.OSFile(str(path), "rb"), "zstd")
    return stream


OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".zst": open_zstd,
}


def file_compression(path: Path) -> str:
    """`.gz`, `.xz`, `.zst`, or an empty string."""
    suffix = path.suffix.lower()
    return suffix if suffix in OPENERS else ""


def read_blocks(path: Path) -> Iterator[bytes]:
    """The content of `path`, decompressed, about a megabyte at a time."""
    compression = file_compression(path)
    try:
        with OPENERS[compression](path) if compression else path.open("rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                yield block
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as problem:
        raise read_error(problem, path) from problem


def read_error(problem: Exception, path: Path) -> Exception:
    """A failed read as a `UserError`; errors the user cannot fix are returned unchanged."""
    if isinstance(problem, FileNotFoundError):
        return UserError(
            "there is no such file",
            topic="data",
            where=str(path),
            hint="Check the path; relative paths start in the current folder.",
        )
    if isinstance(problem, PermissionError):
        return UserError(
            "no permission to read the file",
            topic="data",
            where=str(path),
            hint="Change its permissions (chmod +r).",
        )
    # The system sets errno (a failing disk); decompressors raise OSError without one.
    if isinstance(problem, OSError) and problem.errno is not None:
        return problem
    truncated = isinstance(problem, EOFError) or "runcated" in str(problem)
    state = "truncated" if truncated else "damaged"
    return UserError(
        f"the {file_compression(path)} file is {state} ({problem})",
        topic="data",
        where=str(path),
        hint="Copy or download it again, or decompress it and give the plain file.",
    )
