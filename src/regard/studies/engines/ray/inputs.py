"""What a training reads besides its recipe, and how it reaches a node.

    below the working directory    travels, to the same relative path there
    elsewhere                      is expected at the same path, with the same content
    built-in sets, packages        are expected with the same content, the same version

What a node lacks, or has otherwise, is an error there that names it (`check_expected`).
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.toml import flatten
from regard.data.builtin import BUILTIN, content_identity
from regard.data.readers.parallel_text import parallel_files
from regard.data.sources import HUB_PREFIX, size_and_sha256
from regard.interop.packages import PIP_PREFIX
from regard.runs.recipe import Recipe
from regard.runs.recipe_paths import PATH_KEYS, candidates_of_run, find_path

OWN_FILES = "own-files"
"Folder of the files given with --with, in a node's working directory."
OF_A_RUN = (
    *("recipe.toml", "origin.json", "results.json", "seal.json", "audit.json"),
    *("final/*", "with/*"),
)
"What is read of a run that another starts from."


@dataclass
class Inputs:
    """Of one training."""

    files: dict[str, Path] = field(default_factory=dict)
    "Those that travel, by their name relative to the working directory, with slashes."
    elsewhere: list[Path] = field(default_factory=list)
    "Files outside of the working directory."
    builtin: list[str] = field(default_factory=list)
    packages: list[str] = field(default_factory=list)
    own_files: list[str] = field(default_factory=list)
    "Names of the files given with --with."


def inputs_of(recipe: Recipe, user_files: Sequence[Path]) -> Inputs:
    """Everything that the recipe names."""
    inputs = Inputs()
    for number, file in enumerate(user_files):
        name = f"{OWN_FILES}/{number}/{file.name}"
        inputs.files[name] = file
        inputs.own_files.append(name)
    settings = flatten(recipe.to_table())
    for key, value in settings.items():
        if key in PATH_KEYS:
            for name in value if isinstance(value, list | tuple) else [value]:
                if isinstance(name, str) and name:
                    _add(inputs, name)
    return inputs


def expected_of(inputs: Inputs) -> dict[str, Any]:
    """What a node has to have itself, with fingerprints; as JSON has it."""
    builtin = {name: list(content_identity(BUILTIN.get(name))) for name in inputs.builtin}
    return {
        "files": [[str(path), *size_and_sha256(path)] for path in inputs.elsewhere],
        "builtin": builtin,
        "packages": {name: metadata.version(name) for name in inputs.packages},
    }


def check_expected(expected: Mapping[str, Any]) -> None:
    """An error that names what this machine lacks or has otherwise."""
    for name, size, sha256 in expected.get("files", ()):
        hint = "Put it there, or below the folder where the study is started: then it travels."
        if not Path(name).is_file():
            raise UserError("there is no such file here", topic="data", where=name, hint=hint)
        if (size, sha256) != size_and_sha256(Path(name)):
            raise UserError(
                "is another file than where the study was started",
                topic="data",
                where=name,
                hint=hint,
            )
    for name, identity in expected.get("builtin", {}).items():
        if list(content_identity(BUILTIN.get(name))) != identity:
            raise UserError(
                "this built-in set has other content than where the study was started",
                topic="data",
                where=name,
                hint="Install the same versions of Python and of its package.",
            )
    for name, version in expected.get("packages", {}).items():
        with suppress(metadata.PackageNotFoundError):
            if metadata.version(name) == version:
                continue
        raise UserError(
            f"version {version} is not installed here, where the study was started it is",
            topic="model",
            where=name,
            hint=f"pip install {name}=={version}",
        )


def _add(inputs: Inputs, name: str) -> None:
    if name in BUILTIN.names():
        inputs.builtin.append(name)
    elif name.startswith(PIP_PREFIX):
        inputs.packages.append(name.removeprefix(PIP_PREFIX))
    elif not name.startswith(HUB_PREFIX):
        for path in _files_at(name):
            _add_file(inputs, path)


def _add_file(inputs: Inputs, path: Path) -> None:
    if path.is_absolute() or ".." in path.parts:
        inputs.elsewhere.append(path)
    else:
        inputs.files[path.as_posix()] = path


def _files_at(name: str) -> Iterator[Path]:
    path = Path(name).expanduser()
    if (path / "recipe.toml").is_file():
        yield from _files_of_run(path)
    elif path.is_dir():
        for file in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
            if file.is_file() and not hidden:
                yield file
        yield from _files_of_base(path, path)
    elif path.is_file():
        yield path
    elif parallel := parallel_files(name, path):
        yield from parallel.values()
    elif glob.has_magic(name):
        found = sorted(Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207
        yield from (file for file in found if file.is_file())


def _files_of_run(run: Path) -> Iterator[Path]:
    for pattern in OF_A_RUN:
        yield from sorted(file for file in run.glob(pattern) if file.is_file())
    yield from _files_of_base(run, run / "final")


def _files_of_base(owner: Path, folder: Path) -> Iterator[Path]:
    """Of the model that an adapter was trained on."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
        base = str(config["base"]["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if not base.startswith(PIP_PREFIX):
        yield from _files_at(find_path(base, candidates_of_run(owner)))
