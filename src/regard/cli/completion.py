"""Shell completion: runs, recipes, studies, and the names of parts, lessons and settings.

A shell asks at each key press, so nothing is imported: folders are listed, and the names of parts
are read from the decorators in the source files that register them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from regard.core.synonyms import SETTING_TABLES

CATALOG_FOLDERS = {
    "adapter": "adapters",
    "attention": "attention/kinds",
    "mask": "attention/masks",
    "position": "attention/positions",
    "family": "models/families",
    "objective": "objectives",
    "task": "tasks",
    "metric": "evaluation/metrics",
    "tokenizer": "data/tokenizers",
    "corpus": "data/builtin",
}
"Where the parts of each catalogue are."
PART_SETTINGS = {
    "model.family": "family",
    "model.attention.kind": "attention",
    "model.positions.kind": "position",
    "objective.kind": "objective",
    "task.kind": "task",
    "tokenizer.kind": "tokenizer",
    "adapt.kind": "adapter",
    "data.corpus": "corpus",
}
"Settings whose value is the name of a part."
SOURCE = Path(__file__).parents[1]
REGISTERED = re.compile(
    r"^@(?:[A-Z]+\.add|kind|metric_kind|mask_kind|lesson|exercise)\(\s*\"([\w-]+)\"", re.MULTILINE
)
"A decorator that registers a part under a name."


def complete_run(incomplete: str) -> list[str]:
    """Folders of runs below runs/, those of studies too; else folders."""
    found = [
        folder.as_posix()
        for pattern in ("runs/*", "runs/*/*", "runs/*/*/*")
        for folder in sorted(Path().glob(pattern))
        if (folder / "recipe.toml").is_file() or (folder / "study.toml").is_file()
    ]
    return _beginning(incomplete, found) or list(_paths(incomplete))


def complete_recipe(incomplete: str) -> list[str]:
    """TOML files and folders."""
    return list(_paths(incomplete, suffix=".toml"))


def complete_catalog(incomplete: str) -> list[str]:
    return _beginning(incomplete, CATALOG_FOLDERS)


def complete_mask(incomplete: str) -> list[str]:
    return _beginning(incomplete, part_names("mask"))


def complete_tokenizer_kind(incomplete: str) -> list[str]:
    return _beginning(incomplete, part_names("tokenizer"))


def complete_lesson(incomplete: str) -> list[str]:
    return _beginning(incomplete, _registered_in(SOURCE / "lessons", "lesson"))


def complete_exercise(incomplete: str) -> list[str]:
    return _beginning(incomplete, _registered_in(SOURCE / "lessons", "exercise"))


def complete_setting(incomplete: str) -> list[str]:
    """`train.lr=`, and the names of parts after `model.attention.kind=`."""
    key, equals, _ = incomplete.partition("=")
    if equals:
        names = part_names(PART_SETTINGS[key]) if key in PART_SETTINGS else []
        return _beginning(incomplete, [f"{key}={name}" for name in names])
    keys = {*PART_SETTINGS, *(f"{table}.{name}" for name, table in SETTING_TABLES.items())}
    return [f"{key}=" for key in _beginning(incomplete, keys)]


def part_names(catalog: str) -> list[str]:
    """The names in a catalogue, from its source files alone."""
    return sorted(_registered_in(SOURCE / CATALOG_FOLDERS[catalog]))


def _registered_in(folder: Path, decorator: str = "") -> Iterator[str]:
    for file in sorted(folder.rglob("*.py")):
        for match in REGISTERED.finditer(file.read_text(encoding="utf-8")):
            if match[0].startswith(f"@{decorator}"):
                yield match[1]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _paths(incomplete: str, *, suffix: str | None = None) -> Iterator[str]:
    """Folders, and the files with a suffix, that begin with what is typed."""
    typed = Path(incomplete)
    parent = typed if incomplete.endswith("/") else typed.parent
    if not parent.is_dir():
        return
    for path in sorted(parent.iterdir()):
        shown = path.as_posix()
        if shown.startswith(incomplete) and not path.name.startswith("."):
            if path.is_dir():
                yield f"{shown}/"
            elif suffix is not None and path.suffix == suffix:
                yield shown
