"""Where texts come from: files, folders and globs; built-in corpora; Hugging Face datasets.

`find_sources` turns the words of a recipe (`"reviews.csv"`, `"texts/*.txt"`, `"python-docs"`,
`"hub:imdb"`) into sources. A source streams its texts as often as asked and says what it is made
of: (name, size, SHA-256) of every file, which is what a token cache is keyed by.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, Protocol

from regard.catalog import Entry
from regard.errors import UserError
from regard.text.builtin import BUILTIN
from regard.text.compression import explain
from regard.text.readers import Dropped, Reading, Text, is_known_format, read_texts

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

    def texts(self, dropped: Dropped) -> Iterator[Text]: ...

    def identities(self) -> Iterator[Identity]: ...


@dataclass(frozen=True)
class Files:
    """Files read in order; at least one document must come out of them."""

    name: str
    files: tuple[Path, ...]
    reading: Reading
    left_out: tuple[Path, ...] = ()
    generated: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(str(file.resolve()) for file in self.files)

    def texts(self, dropped: Dropped) -> Iterator[Text]:
        nothing_yet = True
        for file in self.files:
            for text in read_texts(file, self.reading, dropped):
                nothing_yet = False
                yield Text(text)
        if nothing_yet:
            raise self._nothing(dropped)

    def _nothing(self, dropped: Dropped) -> UserError:
        here = {str(file) for file in self.files}
        left = Dropped(
            empty={file: count for file, count in dropped.empty.items() if file in here},
            bad={file: count for file, count in dropped.bad.items() if file in here},
        )
        it = "this file" if len(self.files) == 1 else f"these {len(self.files):,} files"
        return UserError(
            f"there is no document in {it}: {str(left) or 'empty'}",
            topic="data",
            where=self.name,
            mend="Give at least one line of text.",
        )

    def identities(self) -> Iterator[Identity]:
        for file in self.files:
            yield Identity(str(file), *size_and_sha256(file))


@dataclass(frozen=True)
class BuiltIn:
    """A corpus that comes with regard or with Python itself."""

    entry: Entry
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

    def texts(self, dropped: Dropped) -> Iterator[Text]:
        yield from self.entry.part()

    def identities(self) -> Iterator[Identity]:
        yield Identity(*self.entry.properties["identity"]())


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


def find_sources(names: Iterable[str], *, reading: Reading, base: Path) -> list[Source]:
    """A source for each name; relative paths start at `base`."""
    return [_find_source(name, reading=reading, base=base) for name in names]


def _find_source(name: str, *, reading: Reading, base: Path) -> Source:
    if name.startswith(HUB):
        from regard.text.hub import open_hub

        return open_hub(name, column=reading.column)
    if name in BUILTIN.names():
        return BuiltIn(BUILTIN.get(name))
    path = base / Path(name).expanduser()
    if path.is_dir():
        return _folder(name, path, reading)
    if path.exists():
        return Files(name, (path,), reading)
    if glob.has_magic(name):
        return _glob(name, path, reading)
    close = get_close_matches(name, BUILTIN.names(), n=1, cutoff=0.6)
    guess = f" — did you mean {close[0]}?" if close else ""
    raise UserError(
        f"there is no such file, folder or built-in corpus{guess}",
        topic="data",
        where=name,
        mend=""
        if close
        else "Check the path; a relative one starts in the folder where the command runs. "
        f"Built in: {', '.join(BUILTIN.names())}.",
    )


def _folder(name: str, path: Path, reading: Reading) -> Files:
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
            "there is no file in this folder", topic="data", where=name, mend="Put text into it."
        )
    return Files(name, tuple(chosen), reading, left_out=tuple(sorted({*every} - {*chosen})))


def _glob(name: str, path: Path, reading: Reading) -> Files:
    found = sorted(Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207
    files = tuple(file for file in found if file.is_file())
    if not files:
        raise UserError(
            "no file matches this pattern",
            topic="data",
            where=name,
            mend="Check it with ls; ** stands for any number of folders.",
        )
    return Files(name, files, reading)
