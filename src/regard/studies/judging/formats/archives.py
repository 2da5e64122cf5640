"""Archives of others: what they may hold at most, and everything that reading a damaged one raises.

An archive of a megabyte can unpack to gigabytes, and it says itself how much it holds, which need
not be true: members are read up to a limit.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from regard.core.errors import UserError

MAX_MEMBER_BYTES = 1 << 31
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(ValueError, TypeError, KeyError, AttributeError, StopIteration),
    *(NotImplementedError, RuntimeError),  # other compressions, members under a password
    *(MemoryError, OverflowError),  # sizes that are not true
)


@contextmanager
def archive_read(path: Path, *, noun: str, hint: str) -> Iterator[None]:
    """Around code that reads an archive: one sentence for all that may be wrong with it."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(
            "there is no such file",
            topic="judge",
            where=str(path),
            hint="Check the path; relative paths start in the current folder.",
        ) from None
    except DAMAGE as problem:
        reason = str(problem).partition("\n")[0] or type(problem).__name__
        raise UserError(
            f"{noun}, or damaged ({reason})", topic="judge", where=str(path), hint=hint
        ) from None


def read_member(stream: IO[bytes], name: str) -> bytes:
    """All of it, or a ValueError where it has no end."""
    content = stream.read(MAX_MEMBER_BYTES + 1)
    if len(content) > MAX_MEMBER_BYTES:
        raise ValueError(f"{name} unpacks to more than {MAX_MEMBER_BYTES >> 20:,} MB")
    return content


def check_sizes(archive: zipfile.ZipFile) -> None:
    """For readers that unpack by themselves."""
    for member in archive.infolist():
        if member.file_size > MAX_MEMBER_BYTES:
            raise ValueError(
                f"{member.filename} unpacks to more than {MAX_MEMBER_BYTES >> 20:,} MB"
            )
