"""Catalogues: registries that map a name in a recipe to the settings class that builds the part.

A part is one file in the catalogue's home package: a settings class under one decorator. The home
is imported at the first lookup, so a new file is registered without further code, and creating a
catalogue imports nothing.

    TOKENIZERS = Catalog("tokenizer", home="regard.data.tokenizers")

    @TOKENIZERS.add("bpe")
    class Bpe(Settings): ...
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from regard.core.errors import UserError, closest, did_you_mean
from regard.core.synonyms import PART_SYNONYMS

Part = TypeVar("Part", bound=Callable[..., Any])


class UnknownPartError(UserError):
    """A name that is not registered in the catalogue."""


def suggest_part(given: str, names: Collection[str]) -> str:
    """` — did you mean X?` for what people call a part, else by spelling; else the known names."""
    meant = [name for name in PART_SYNONYMS.get(given.lower(), ()) if name in names]
    return f" — did you mean {meant[0]}?" if meant else did_you_mean(given, names)


@dataclass(frozen=True)
class Entry:
    """A registered part and the properties it declares."""

    catalog: str
    name: str
    part: Callable[..., Any]
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The first line of the part's docstring."""
        return (inspect.getdoc(self.part) or "").partition("\n")[0]

    @property
    def source(self) -> str:
        """File and line of the definition: `regard/data/tokenizers/bpe.py:12`."""
        file = Path(inspect.getsourcefile(self.part) or "?")
        line = inspect.getsourcelines(self.part)[1]
        root = Path(__file__).parents[2]
        shown = file.relative_to(root) if file.is_relative_to(root) else file
        return f"{shown}:{line}"


class Catalog:
    """A registry of parts by name; `regard.api.catalogs()` lists every catalogue."""

    def __init__(
        self,
        name: str,
        *,
        home: str,
        required: Collection[str] = (),
        optional: Collection[str] | None = None,
    ) -> None:
        self.name = name
        "What its parts are: `attention`, `tokenizer`, …"
        self.home = home
        "The package whose modules register the parts."
        self.required = required
        "Properties that every part declares."
        self.optional = optional
        "Those that it may declare; None: any."
        self._entries: dict[str, Entry] = {}
        self._home_is_loaded = False

    def add(self, name: str, **properties: Any) -> Callable[[Part], Part]:
        """Decorator: register a part under `name`."""
        self._check_properties(name, properties)

        def register(part: Part) -> Part:
            if name in self._entries:
                taken = self._entries[name]
                raise UserError(
                    f"the name is taken by {taken.source}",
                    topic="catalog",
                    where=f"{self.name} {name!r}",
                    hint="Choose another name.",
                )
            self._entries[name] = Entry(self.name, name, part, properties)
            return part

        return register

    def _check_properties(self, name: str, properties: Mapping[str, Any]) -> None:
        where = f"{self.name} {name!r}"
        missing = [key for key in self.required if key not in properties]
        if missing:
            raise UserError(
                f"{missing[0]} is missing",
                topic="catalog",
                where=where,
                hint=f"Every {self.name} declares {' and '.join(self.required)}.",
            )
        known = {*self.required, *(self.optional or properties)}
        for unknown in sorted(properties.keys() - known):
            raise UserError(
                f"unknown property {unknown}{closest(unknown, sorted(known))}",
                topic="catalog",
                where=where,
                hint=f"Known are {', '.join(sorted(known))}.",
            )

    def remove(self, name: str) -> None:
        """Unregister a part, which frees its name."""
        del self._entries[name]

    def get(self, name: str) -> Entry:
        self._load_home()
        if name not in self._entries:
            guess = suggest_part(name, self._entries)
            raise UnknownPartError(f"unknown {self.name} {name!r}{guess}")
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
