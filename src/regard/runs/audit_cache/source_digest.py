"""Digest of regard's own code: its Python sources and its compiled kernels."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import regard


def source_digest() -> str | None:
    """SHA-256 of the code that this process runs; None where a file has changed since regard was
    imported, for the code in memory may be the former."""
    if _changed_since(regard.imported_at):
        return None
    return _digest()


@cache
def python_digest() -> str:
    """SHA-256 of the Python sources alone: kernels are compiled by each machine for itself."""
    return _digest_of(".py")


@cache
def _digest() -> str:
    return _digest_of(".py", *EXTENSION_SUFFIXES)


def _digest_of(*suffixes: str) -> str:
    digest = hashlib.sha256()
    for file in _files(*suffixes):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(_package()).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _changed_since(seconds: float) -> bool:
    # The time of the inode's change too, where the system has it: it cannot be set back.
    times = (file.stat() for file in _files(".py", *EXTENSION_SUFFIXES))
    return any(max(one.st_mtime, one.st_ctime) >= seconds for one in times)


def _files(*suffixes: str) -> list[Path]:
    files = (file for suffix in suffixes for file in _package().rglob(f"*{suffix}"))
    return sorted(set(files))


def _package() -> Path:
    return Path(__file__).parents[2]
