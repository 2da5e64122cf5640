"""The recipes and studies that come with regard: in a clone beside src/, in a wheel inside it."""

from __future__ import annotations

import tomllib
from functools import cache
from itertools import takewhile
from pathlib import Path

import regard
from regard.core.errors import UserError
from regard.core.files import write_output

PACKAGE = Path(regard.__file__).parent
FOLDERS = (PACKAGE / "recipes", PACKAGE.parents[1] / "recipes")


@cache
def builtin_recipes() -> dict[str, Path]:
    """By name: `mini-gpt.toml`, `full/squad.toml`."""
    folder = next(filter(Path.is_dir, FOLDERS), None)
    if folder is None:
        return {}
    return {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*.toml"))}


def summary(file: Path) -> str:
    """The first sentence of its comment; of a study without one, its question."""
    text = file.read_text(encoding="utf-8")
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.lstrip("# ") for line in lines)
    comment = comment or str(tomllib.loads(text).get("question", ""))
    return comment.partition(". ")[0].removesuffix(".")


def copy_builtin_recipes(folder: Path) -> tuple[list[Path], list[Path]]:
    """Copy all into a folder, for studies name recipes beside them; (copied, there already)."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file", topic="recipes", hint="Give a folder.")
    copied, kept = [], []
    for name, file in builtin_recipes().items():
        target = folder / name
        if target.exists():
            kept.append(target)
            continue
        write_output(target, file.read_text(encoding="utf-8"), topic="recipes")
        copied.append(target)
    return copied, kept
