"""Paths in a recipe: relative to the recipe; those of a run are found again when it moves.

    data.corpus = "reviews.csv"    in recipes/opinions.toml: recipes/reviews.csv, else ./reviews.csv
    runs/<name>/origin.json        where the run was created, and in which working directory

A path that exists is written as seen from the working directory if it is below that, else as an
absolute path. The recipe stored in a run holds the paths of that moment. With its origin they are
found if the run moved together with its files, if it moved alone, and from any working directory.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import UserError
from regard.core.files import path_text, read_json, text_path, write_json
from regard.data.builtin import BUILTIN
from regard.data.readers.parallel_text import BRACES
from regard.data.sources import HUB_PREFIX
from regard.interop.packages import PIP_PREFIX

ORIGIN_FILE = "origin.json"
SCHEMA = 1

DATA_KEYS = ("corpus", "dev", "test")
PATH_KEYS = (
    "init_from",
    "tokenizer.path",
    *(f"data.{key}" for key in DATA_KEYS),
    *("task.collection", "task.judgements", "task.seen_in"),
    *(f"task.seen_in.{key}" for key in DATA_KEYS),
)
"Settings that name files."

Candidates = Callable[[str], Iterable[Path]]
"Where a path may be, the likeliest first."


class Origin(NamedTuple):
    """Where a run was created, as absolute paths."""

    folder: Path
    working_directory: Path


def write_origin(inside: Path, folder: Path) -> None:
    """Write the origin of the run `folder` into the folder `inside`."""
    paths: dict[str, str | Path] = {
        "folder": _absolute(folder),
        "working_directory": Path.cwd(),
    }
    table = {key: path_text(path) for key, path in paths.items()}
    write_json(inside / ORIGIN_FILE, {"schema": SCHEMA, **table})


def read_origin(folder: Path) -> Origin | None:
    """None for a run of an earlier version, or if its file is damaged."""
    try:
        table = read_json(folder / ORIGIN_FILE, schema=SCHEMA)
        return Origin(text_path(table["folder"]), text_path(table["working_directory"]))
    except (UserError, KeyError, TypeError, AttributeError, ValueError):
        return None


def run_around(path: Path) -> Path:
    """The run that a model folder or a checkpoint belongs to; without one, the folder itself."""
    absolute = Path(_absolute(path))
    candidates = (absolute, absolute.parent, absolute.parent.parent)
    return next((folder for folder in candidates if (folder / "recipe.toml").is_file()), absolute)


def candidates_beside(file: Path) -> Candidates:
    """A path in a recipe or a study: relative to that file, or to the working directory."""
    folder = file if file.is_dir() else file.parent
    if (folder / ORIGIN_FILE).is_file():
        return candidates_of_run(folder)
    return lambda path: (folder / path, Path(path))


def candidates_of_run(folder: Path) -> Candidates:
    """A path that a run stored."""
    origin = read_origin(folder)

    def candidates(path: str) -> Iterable[Path]:
        if origin is not None:
            before = Path(os.path.normpath(origin.working_directory / path))
            with suppress(ValueError):  # on another drive than the run
                moved_together = os.path.relpath(before, origin.folder)
                yield Path(_absolute(folder)) / moved_together
            yield before
        yield from (Path(path), folder / path)

    return candidates


def here(path: str) -> Iterable[Path]:
    """The location of a path that was typed: relative to the working directory."""
    yield Path(path)


def find_paths(table: dict[str, Any], candidates: Candidates) -> None:
    """Replace every path of a table of settings by its location."""
    for key in PATH_KEYS:
        *tables, last = key.split(".")
        inner: Any = table
        for name in tables:
            inner = inner.get(name) if isinstance(inner, Mapping) else None
        if isinstance(inner, dict) and last in inner:
            inner[last] = find_path(inner[last], candidates)


def find_path(value: Any, candidates: Candidates) -> Any:
    """A path, or a list of paths, where it is; what is no path or is nowhere stays as it is."""
    if isinstance(value, list | tuple):
        return [find_path(each, candidates) for each in value]
    if not isinstance(value, str) or not value or value.startswith((HUB_PREFIX, PIP_PREFIX, "~")):
        return value
    found = next((path for path in candidates(value) if _exists(path)), None)
    # The name of a built-in set means the set, whatever lies beside the recipe.
    return value if found is None or value in BUILTIN.names() else _from_here(found)


def _from_here(path: Path) -> str:
    absolute, here = _absolute(path), Path.cwd()
    inside = Path(absolute).is_relative_to(here)
    return str(Path(absolute).relative_to(here)) if inside else absolute


def _exists(path: Path) -> bool:
    """Whether there is such a file or folder, parallel files, or a match of the pattern."""
    try:
        if path.exists():
            return True
        if braces := BRACES.search(str(path)):
            columns = braces[1].split(",")
            files = (BRACES.sub(column.strip(), str(path)) for column in columns)
            return all(Path(file).exists() for file in files)
        return glob.has_magic(str(path)) and any(glob.iglob(str(path), recursive=True))  # noqa: PTH207
    except (OSError, ValueError):  # a name that cannot be one of a file
        return False


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100  links in the path stay links
