"""Bytes of a file as they were before compression, in bounded blocks; a damaged file says so."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from regard.core.errors import UserError

BLOCK = 1 << 20


def open_zstd(path: Path) -> IO[bytes]:
    import pyarrow as pa

    stream: IO[bytes] = pa.CompressedInputStream(pa.OSFile(str(path), "rb"), "zstd")
    return stream


OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".zst": open_zstd,
}


def compression_of(path: Path) -> str:
    """`.gz`, `.xz`, `.zst`, or nothing."""
    suffix = path.suffix.lower()
    return suffix if suffix in OPENERS else ""


def blocks(path: Path) -> Iterator[bytes]:
    """The content of `path`, decompressed, about a megabyte at a time."""
    compression = compression_of(path)
    try:
        with OPENERS[compression](path) if compression else path.open("rb") as stream:
            while block := stream.read(BLOCK):
                yield block
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as problem:
        raise explain(problem, path) from problem


def explain(problem: Exception, path: Path) -> Exception:
    """What a failed read means for the person whose file it is; what they cannot mend, as it is."""
    if isinstance(problem, FileNotFoundError):
        return UserError(
            "there is no such file",
            topic="data",
            where=str(path),
            hint="Check the path; it is taken from the folder in which the command runs.",
        )
    if isinstance(problem, PermissionError):
        return UserError(
            "the file may not be read",
            topic="data",
            where=str(path),
            hint="Change its permissions (chmod +r).",
        )
    # An errno is the system's word (a failing disk); decompressors raise OSError without one.
    if isinstance(problem, OSError) and problem.errno is not None:
        return problem
    cut_short = isinstance(problem, EOFError) or "runcated" in str(problem)
    return UserError(
        f"the {compression_of(path)} file is {'cut short' if cut_short else 'damaged'} ({problem})",
        topic="data",
        where=str(path),
        hint="Copy or download it again, or decompress it yourself and give the plain file.",
    )
