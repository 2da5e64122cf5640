"""What a recipe of the page may read: built-in corpora, and what lies beside the runs, by id.

The page serves `runs/`; its recipes, and the files that they read, lie in the folder around it. A
browser names one of them by an id from this list and never by a path. Links are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.core.errors import UserError
from regard.core.printable import printable
from regard.core.untrusted import shorten
from regard.data.builtin import BUILTIN
from regard.data.readers.formats import is_known_format
from regard.runs.archive.index import RunState
from regard.runs.proposals.builtin_recipes import builtin_recipes
from regard.web.listing import Listing, NotFoundError, id_of

MAX_LISTED = 300
"Files, recipes, and runs to start from."
RECIPE_FOLDER = "recipes"


@dataclass(frozen=True)
class DataSource:
    """A file or a folder of files that can be data."""

    id: str
    name: str
    "Its path, as seen from the folder around the runs."
    is_folder: bool

    @property
    def label(self) -> str:
        return f"{printable(self.name)}{'/' if self.is_folder else ''}"


class Sources:
    """Data, initial models and recipes that the page offers."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    @property
    def home(self) -> Path:
        """The folder around the runs, in which `regard train` is run."""
        return self._listing.root.resolve().parent

    @property
    def runs_folder(self) -> Path:
        """As seen from `home`."""
        return self._listing.root.resolve().relative_to(self.home)

    def files(self) -> dict[str, DataSource]:
        """By id: the data files beside the runs, and the folders that hold some."""
        return {one.id: one for one in islice(self._find_files(), MAX_LISTED)}

    def recipes(self) -> dict[str, Path]:
        """By id: the recipes beside the runs, and in recipes/ there."""
        found: dict[str, Path] = {}
        for folder in (self.home, self.home / RECIPE_FOLDER):
            for entry in _entries(folder):
                path = Path(entry.path)
                if path.suffix == ".toml" and entry.is_file(follow_symlinks=False):
                    found[id_of(f"recipe {path.relative_to(self.home).as_posix()}")] = path
        return dict(sorted(found.items(), key=lambda pair: pair[1])[:MAX_LISTED])

    def builtin_recipes(self) -> dict[str, Path]:
        """By id: those that come with regard, unless they lie beside the runs too."""
        home = self.home / RECIPE_FOLDER
        return {
            id_of(f"builtin {name}"): path
            for name, path in builtin_recipes().items()
            if not (home / name).is_file()
        }

    def initial_models(self) -> dict[str, str]:
        """By id: the finished runs, as seen from `home`."""
        return {
            id: (self.runs_folder / run.folder.relative_to(self._listing.root)).as_posix()
            for id, run in self._listing.runs().items()
            if run.state is RunState.FINISHED
        }

    def resolve(self, key: str, given: str) -> str:
        """What a recipe writes for a name or an id."""
        if key == "init_from":
            known: Mapping[str, str] = self.initial_models()
            what = "start from a finished run of the list"
        else:
            known = {one.id: one.name for one in self.files().values()}
            what = "choose a built-in corpus, or a file of the list"
            if given in BUILTIN.names() and not key.startswith(("tokenizer.", "objective.")):
                return given
        if given in known:
            return known[given]
        raise UserError(
            f"{key} = {shorten(given)}: the page takes no path, package or address: {what}",
            topic="recipe",
            hint="A recipe in a file may name any: regard train RECIPE.",
        )

    def find_id(self, key: str, name: str) -> str:
        """The inverse of `resolve`, for a path as seen from the working directory."""
        if key != "init_from" and name in BUILTIN.names():
            return name
        path = Path(os.path.normpath(Path.cwd() / name))
        known = (
            self.initial_models()
            if key == "init_from"
            else {one.id: one.name for one in self.files().values()}
        )
        for id, one in known.items():
            if self.home / one in (path, path.resolve()):
                return id
        raise NotFoundError(
            f"{key} = {shorten(name)} is not in the list of what lies beside the runs",
            topic="recipe",
            hint="Train it by its file: regard train RECIPE.",
        )

    def _find_files(self) -> Iterator[DataSource]:
        for entry in _entries(self.home):
            if entry.name.startswith("~") or set(":*?[{") & set(entry.name):
                continue  # in a recipe it would mean something else: hub:NAME, a pattern
            path = Path(entry.path)
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and path != self._listing.root.resolve() and _holds_data(path):
                yield _source(entry.name, is_folder=True)
            if entry.is_file(follow_symlinks=False) and is_known_format(path):
                yield _source(entry.name, is_folder=False)


def _source(name: str, *, is_folder: bool) -> DataSource:
    return DataSource(id_of(f"data {name}"), name, is_folder)


def _holds_data(folder: Path) -> bool:
    return any(
        entry.is_file(follow_symlinks=False) and is_known_format(Path(entry.path))
        for entry in _entries(folder)
    )


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What lies in a folder, by name, without what is hidden."""
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError:  # not there, or not ours to read
        return []
    return sorted(shown, key=lambda entry: entry.name)
