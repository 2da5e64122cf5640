"""Named parts: a catalogue maps a name in a recipe to the settings class that builds the part.

A part is one file in the catalogue's home package: a settings class under one decorator. The home
is imported when the first name is looked up, so a new file is found with nothing else written, and
asking for the catalogues' names costs nothing.

    TOKENIZERS = Catalog("tokenizer", home="regard.data.tokenizers")

    @TOKENIZERS.add("bpe")
    class Bpe(Settings): ...
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from regard.core.errors import UserError, did_you_mean

Part = TypeVar("Part", bound=Callable[..., Any])


class UnknownPartError(UserError):
    """A name that no catalogue holds."""


@dataclass(frozen=True)
class Entry:
    """One named part, with what it declares about itself."""

    catalog: str
    name: str
    part: Callable[..., Any]
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The first line of the part's own documentation."""
        return (inspect.getdoc(self.part) or "").partition("\n")[0]

    @property
    def source(self) -> str:
        """`regard/data/tokenizers/bpe.py:12`: where to read it."""
        file = Path(inspect.getsourcefile(self.part) or "?")
        line = inspect.getsourcelines(self.part)[1]
        root = Path(__file__).parents[2]
        shown = file.relative_to(root) if file.is_relative_to(root) else file
        return f"{shown}:{line}"


class Catalog:
    """All parts of one sort, by name; `regard.api.catalogs()` lists every catalogue."""

    def __init__(self, sort: str, *, home: str) -> None:
        self.sort = sort
        self.home = home
        self._entries: dict[str, Entry] = {}
        self._home_is_loaded = False

    def add(self, name: str, **properties: Any) -> Callable[[Part], Part]:
        """Decorator: put a part into the catalogue under `name`."""

        def register(part: Part) -> Part:
            if name in self._entries:
                taken = self._entries[name]
                raise UserError(
                    f"the name is taken by {taken.source}",
                    topic="catalog",
                    where=f"{self.sort} {name!r}",
                    hint="Choose another name.",
                )
            self._entries[name] = Entry(self.sort, name, part, properties)
            return part

        return register

    def remove(self, name: str) -> None:
        """Take a part out again, so that its name is free."""
        del self._entries[name]

    def get(self, name: str) -> Entry:
        self._load_home()
        if name not in self._entries:
            guess = did_you_mean(name, self._entries)
            raise UnknownPartError(f"unknown {self.sort} {name!r}{guess}")
        return self._entries[name]

    def names(self) -> list[str]:
        self._load_home()
        return sorted(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return (self.get(name) for name in self.names())

    def _load_home(self) -> None:
        if self._home_is_loaded:
            return
        self._home_is_loaded = True
        home = importlib.import_module(self.home)
        for module in pkgutil.walk_packages(getattr(home, "__path__", []), f"{self.home}."):
            importlib.import_module(module.name)
