"""A corpus: the `[data]` table of a recipe, opened as three streams of texts.

Where dev or test is a share, a document's part follows from a hash of (seed, group), the group
being the document's own text unless its source gives one:

    u = hash(split_seed, group) / 2⁶⁴        dev if u < dev,  test if u ≥ 1 − test,  else train

So exact duplicates never straddle parts, and the split depends on neither order nor memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from regard.errors import UserError
from regard.settings import Settings
from regard.text.readers import Dropped, Reading, Text, Unit
from regard.text.sources import Identity, Source, find_sources

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = get_args(Part)


def _check_names(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"give a name, a path, a pattern or a list of these, not {value!r}")
    if not names or not all(name.strip() for name in names):
        raise ValueError("the name is empty; give a built-in corpus, a path or a pattern")
    return value if isinstance(value, str) else tuple(names)


def _check_share_or_names(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _check_names(value)
    if not 0 < value < 0.5:
        raise ValueError(
            f"{value} is no share; give one above 0 and below 0.5 (0.05 is a document in twenty), "
            "or a path"
        )
    return float(value)


Names = Annotated[str | tuple[str, ...], BeforeValidator(_check_names)]
ShareOrNames = Annotated[float | str | tuple[str, ...], BeforeValidator(_check_share_or_names)]


class Data(Settings):
    """Which texts a run reads, and how they are cut into train, dev and test."""

    corpus: Names
    """A built-in corpus, a file (txt, csv, tsv, jsonl, parquet; also .gz .xz .zst), a folder, a
    pattern such as "texts/*.txt", a dataset "hub:NAME[:CONFIG]", or a list of these."""

    text: str = Field(default="text", min_length=1)
    "The column or key that holds the text, in tables and JSON lines."

    unit: Unit = "line"
    "What one document is in plain text: a line, a paragraph (blank lines between), or a file."

    dev: ShareOrNames = 0.05
    "The part that choices are made on: a share of the documents, or files of its own."

    test: ShareOrNames = 0.05
    "The part that only judges: a share of the documents, or files of its own."

    split_seed: int = 0
    "Which documents fall into dev and test where these are shares."

    cut: int | None = Field(default=None, ge=1)
    "Documents are cut after this many tokens (what is lost is counted); none by default."

    skip_bad_rows: bool = False
    "Drop and count rows that cannot be read, instead of stopping at the first."

    limit: int | None = Field(default=None, ge=1)
    "Read at most this many documents of each source; all by default."


def open_corpus(data: Data, *, base: Path = Path()) -> Corpus:
    """Find what `data` names, below `base` where relative; nothing is read yet."""
    reading = Reading(column=data.text, unit=data.unit, skip_bad_rows=data.skip_bad_rows)
    given: dict[Part, float | str | tuple[str, ...]] = {
        "train": data.corpus,
        "dev": data.dev,
        "test": data.test,
    }
    sources = {
        part: find_sources(_names(value), reading=reading, base=base)
        for part, value in given.items()
        if not isinstance(value, float)
    }
    _refuse_the_same_twice(sources)
    return Corpus(data, sources)


@dataclass
class Corpus:
    """Texts in three parts, streamed from their sources as often as asked."""

    data: Data
    sources: Mapping[Part, Sequence[Source]]
    "For `train`, which shares are cut out of, and for `dev` or `test` with files of their own."
    dropped: Dropped = field(default_factory=Dropped)
    "What the last reading left out, by file."

    @property
    def name(self) -> str:
        """Short, for titles: `python-docs`, `reviews.csv`, `a.txt and 3 more`."""
        first, *others = self.sources["train"]
        return f"{Path(first.name).name} and {len(others)} more" if others else first.name

    @property
    def generated(self) -> bool:
        """Whether a program made up any of the texts; every report says so."""
        return any(source.generated for source in self._every_source())

    @property
    def shares(self) -> dict[str, float]:
        """The parts that are cut out of the corpus itself."""
        named = {"dev": self.data.dev, "test": self.data.test}
        return {part: share for part, share in named.items() if isinstance(share, float)}

    def texts(self, part: Part) -> Iterator[str]:
        """The texts of one part, in the order of their sources."""
        role: Part = part if part in self.sources else "train"
        return (text for found, text in self._read(role) if found == part)

    def parted(self) -> Iterator[tuple[Part, str]]:
        """Every text with the part it falls into, in one reading."""
        return chain.from_iterable(self._read(role) for role in self.sources)

    def identities(self) -> Iterator[tuple[str, Identity]]:
        """What everything is made from, with its role; reads every file once to hash it."""
        for role, sources in self.sources.items():
            for source in sources:
                yield from ((role, identity) for identity in source.identities())

    def describe(self) -> str:
        """One line for a person: what is read, what is left out, how it is split."""
        words = ", ".join(source.name for source in self.sources["train"])
        if self.generated:
            words += " (generated)"
        left_out = sum(len(source.left_out) for source in self._every_source())
        if left_out:
            words += f" ({left_out:,} files of other formats in the folder left out)"
        for part in PARTS[1:]:
            if part in self.shares:
                words += f" · {part} {100 * self.shares[part]:.3g} % of it"
            else:
                words += f" · {part} {', '.join(source.name for source in self.sources[part])}"
        dropped = str(self.dropped)
        return f"{words} · {dropped}" if dropped else words

    def _read(self, role: Part) -> Iterator[tuple[Part, str]]:
        texts = chain.from_iterable(source.texts(self.dropped) for source in self.sources[role])
        part_of = self._split() if role == "train" else lambda _: role
        for text in islice(texts, self.data.limit):
            yield part_of(text), text.text

    def _split(self) -> Callable[[Text], Part]:
        dev_below = self.shares.get("dev", 0.0)
        test_from = 1 - self.shares.get("test", 0.0)
        seed = self.data.split_seed

        def part_of(text: Text) -> Part:
            place = place_in_split(text.group or text.text, seed=seed)
            return "dev" if place < dev_below else "test" if place >= test_from else "train"

        return part_of

    def _every_source(self) -> Iterator[Source]:
        return chain.from_iterable(self.sources.values())


def place_in_split(group: str, *, seed: int) -> float:
    """Where a group falls, uniform in [0, 1)."""
    digest = hashlib.blake2b(f"{seed}\0{group}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53  # 53 bits: exact as a float, below 1


def _names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _refuse_the_same_twice(sources: Mapping[Part, Sequence[Source]]) -> None:
    setting = {"train": "data.corpus", "dev": "data.dev", "test": "data.test"}
    owner: dict[str, Part] = {}
    every = [(part, source) for part, these in sources.items() for source in these]
    for part, source in every:
        for key in source.keys:
            if key not in owner:
                owner[key] = part
                continue
            what, mend = f"given twice in {setting[part]}", "Name it once."
            if owner[key] != part:
                what = f"given both as {setting[owner[key]]} and as {setting[part]}"
                mend = (
                    "What is trained or tuned on cannot also judge: take it out of one of them, "
                    f"or give {setting[part]} a share such as 0.05."
                )
            raise UserError(what, topic="data", where=_shown(key, source), mend=mend)


def _shown(key: str, source: Source) -> str:
    path = Path(key)
    here = Path.cwd()
    if not path.is_absolute():
        return source.name
    return str(path.relative_to(here)) if path.is_relative_to(here) else key
