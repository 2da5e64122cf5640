"""What callers pass, checked: paths, texts, and the files with their own parts."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from regard.adapters import ADAPTERS
from regard.attention.kinds import ATTENTION
from regard.attention.masks.mask import MASKS
from regard.attention.positions import POSITIONS
from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.user_files import UserFile, load_user_files
from regard.data.builtin import BUILTIN
from regard.data.tokenizers import TOKENIZERS
from regard.evaluation.metrics.metric import METRICS
from regard.models.families import FAMILIES
from regard.objectives import OBJECTIVES
from regard.tasks import TASKS


def load_parts(user_files: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[UserFile]:
    """Run the user's Python files, so that recipes can name their parts."""
    return load_user_files(as_files(user_files), catalogs())


def catalogs() -> list[Catalog]:
    """Every catalogue of named parts."""
    return [
        *(ADAPTERS, ATTENTION, MASKS, POSITIONS, FAMILIES, OBJECTIVES, TASKS, METRICS),
        *(TOKENIZERS, BUILTIN),
    ]


def as_path(value: object, what: str) -> Path:
    """The path that an argument is, a `Run` or an `Outcome` included."""
    if isinstance(value, str | PathLike) and str(value):
        return Path(value)
    given = repr(value) if isinstance(value, str) else f"of type {type(value).__name__}"
    raise UserError(f"{what} is {given}: give a path")


def as_files(user_files: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[Path]:
    """The paths; a lone one is a list of one."""
    if isinstance(user_files, str) or not isinstance(user_files, Iterable):
        user_files = [user_files]
    return [as_path(file, "user_files") for file in user_files]


def check_text(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise UserError(f"{what} is of type {type(value).__name__}: give a text")
