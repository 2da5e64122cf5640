"""Where records come from: files, folders and globs; built-in sets; Hugging Face datasets.

`find_sources` turns the words of a recipe (`"reviews.csv"`, `"texts/*.txt"`, `"train.{en,de}"`,
`"python-docs"`, `"hub:imdb"`) into sources. A source streams its records as often as asked and says
what it is made of: (name, size, SHA-256) of every file, which is what a token cache is keyed by.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from regard.core.catalog import Entry
from regard.core.errors import UserError
from regard.data.builtin import BUILTIN
from regard.data.readers.compression import explain
from regard.data.readers.formats import is_known_format, read_records
from regard.data.readers.parallel_text import parallel_files, read_parallel
from regard.data.readers.reading import (
    DropCounts,
    RawRow,
    ReadOptions,
    Record,
    RecordReader,
    complain,
)

HUB = "hub:"


class Identity(NamedTuple):
    """What a text was made from; an edit changes it."""

    name: str
    size: int
    sha256: str


class Source(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def generated(self) -> bool:
        """Whether a program made the texts up."""

    @property
    def keys(self) -> Sequence[str]:
        """One for each thing that is read; two sources that share one hold the same texts."""

    @property
    def left_out(self) -> Sequence[Path]:
        """Files of a folder that are not read, because others in it are known data formats."""

    @property
    def own_parts(self) -> frozenset[str]:
        """The parts of a split that the source brings; none where it brings no split."""

    def records(self, dropped: DropCounts) -> Iterator[Record]: ...

    def identities(self) -> Iterator[Identity]: ...


@dataclass(frozen=True)
class Files:
    """Files read in order; at least one document must come out of them."""

    name: str
    files: tuple[Path, ...]
    reading: ReadOptions
    left_out: tuple[Path, ...] = ()
    generated: bool = False
    own_parts: frozenset[str] = frozenset()

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(str(file.resolve()) for file in self.files)

    def records(self, dropped: DropCounts) -> Iterator[Record]:
        nothing_yet = True
        for file in self.files:
            for record in read_records(file, self.reading, dropped):
                nothing_yet = False
                yield record
        if nothing_yet:
            it = "this file" if len(self.files) == 1 else f"these {len(self.files):,} files"
            raise _nothing(self.name, it, dropped.of(map(str, self.files)))

    def identities(self) -> Iterator[Identity]:
        for file in self.files:
            yield Identity(str(file), *size_and_sha256(file))


@dataclass(frozen=True)
class Parallel:
    """Plain text files whose lines belong together, each one column."""

    name: str
    files: Mapping[str, Path]
    reading: ReadOptions
    left_out: tuple[Path, ...] = ()
    generated: bool = False
    own_parts: frozenset[str] = frozenset()

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(str(file.resolve()) for file in self.files.values())

    def records(self, dropped: DropCounts) -> Iterator[Record]:
        nothing_yet = True
        for record in read_parallel(self.files, RecordReader(self.name, self.reading, dropped)):
            nothing_yet = False
            yield record
        if nothing_yet:
            raise _nothing(self.name, "these files", dropped.of([self.name]))

    def identities(self) -> Iterator[Identity]:
        for file in self.files.values():
            yield Identity(str(file), *size_and_sha256(file))


@dataclass(frozen=True)
class BuiltIn:
    """A set of texts or records that comes with regard or with Python itself."""

    entry: Entry
    reading: ReadOptions = ReadOptions()  # noqa: RUF009
    left_out: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def generated(self) -> bool:
        return bool(self.entry.properties["generated"])

    @property
    def keys(self) -> tuple[str, ...]:
        return (f"built in: {self.name}",)

    @property
    def own_parts(self) -> frozenset[str]:
        return frozenset(row["part"] for row in self._dicts if "part" in row)

    def records(self, dropped: DropCounts) -> Iterator[Record]:
        visit = RecordReader(self.name, self.reading, dropped)
        yield from visit.records(self._rows(visit))

    def _rows(self, visit: RecordReader) -> Iterator[RawRow]:
        columns = self.entry.properties.get("columns")
        if columns is None:
            roles = visit.sole()
            for number, (text, group) in enumerate(self.entry.part(), start=1):
                yield RawRow(f"text {number:,}", dict.fromkeys(roles, text), group=group)
            return
        names = visit.found(columns)
        for number, row in enumerate(self._dicts, start=1):
            values = {role: row.get(name) for role, name in names.items()}
            group = None if row.get("group") is None else str(row["group"])
            yield RawRow(f"row {number:,}", values, group=group, part=row.get("part"))

    @cached_property
    def _dicts(self) -> list[dict[str, Any]]:
        """Held once made: every part asks again, and such sets are small."""
        return list(self.entry.part()) if "columns" in self.entry.properties else []

    def identities(self) -> Iterator[Identity]:
        yield Identity(*self.entry.properties["identity"]())


def _nothing(name: str, it: str, dropped: DropCounts) -> UserError:
    return complain(
        name,
        f"there is no document in {it}: {str(dropped) or 'empty'}",
        hint="Give at least one line of text.",
    )


def size_and_sha256(path: Path) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
                size += len(block)
    except OSError as problem:
        raise explain(problem, path) from problem
    return size, digest.hexdigest()


def find_sources(names: Iterable[str], *, reading: ReadOptions, base: Path) -> list[Source]:
    """A source for each name; relative paths start at `base`."""
    return [_find_source(name, reading=reading, base=base) for name in names]


def _find_source(name: str, *, reading: ReadOptions, base: Path) -> Source:
    if name.startswith(HUB):
        from regard.data.hub import open_hub

        return open_hub(name, reading=reading)
    if name in BUILTIN.names():
        return BuiltIn(BUILTIN.get(name), reading)
    path = base / Path(name).expanduser()
    if path.is_dir():
        return _folder(name, path, reading)
    if path.exists():
        return Files(name, (path,), reading)
    if parallel := parallel_files(name, path):
        return Parallel(name, parallel, reading)
    if glob.has_magic(name):
        return _glob(name, path, reading)
    close = get_close_matches(name, BUILTIN.names(), n=1, cutoff=0.6)
    guess = f" — did you mean {close[0]}?" if close else ""
    raise UserError(
        f"there is no such file, folder or built-in corpus{guess}",
        topic="data",
        where=name,
        hint=""
        if close
        else "Check the path; a relative one starts in the folder where the command runs. "
        f"Built in: {', '.join(BUILTIN.names())}.",
    )


def _folder(name: str, path: Path, reading: ReadOptions) -> Files:
    """Every file below a folder, but only those of known formats where there are such."""
    every = sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and not any(p.startswith(".") for p in file.relative_to(path).parts)
    )
    known = [file for file in every if is_known_format(file)]
    chosen = known or every
    if not chosen:
        raise UserError(
            "there is no file in this folder", topic="data", where=name, hint="Put text into it."
        )
    return Files(name, tuple(chosen), reading, left_out=tuple(sorted({*every} - {*chosen})))


def _glob(name: str, path: Path, reading: ReadOptions) -> Files:
    found = sorted(Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207
    files = tuple(file for file in found if file.is_file())
    if not files:
        raise UserError(
            "no file matches this pattern",
            topic="data",
            where=name,
            hint="Check it with ls; ** stands for any number of folders.",
        )
    return Files(name, files, reading)
