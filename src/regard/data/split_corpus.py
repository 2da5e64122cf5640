"""Sources in three parts: what a corpus of texts and a corpus of records have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from regard.core.errors import UserError
from regard.data.readers.reading import DropCounts, Record
from regard.data.sources import Identity, Source
from regard.data.splits import SPLITS, Split, Splitter, share_of_so_many

if TYPE_CHECKING:
    from regard.data.corpus import Data


@dataclass
class SplitCorpus(ABC):
    """Records in three parts, streamed from their sources as often as asked."""

    data: Data
    sources: Mapping[Split, Sequence[Source]]
    "For `train`, which shares are cut out of, and for `dev` or `test` with files of their own."
    dropped: DropCounts = field(default_factory=DropCounts)
    "What the last reading left out, by file."

    @property
    @abstractmethod
    def text_roles(self) -> Sequence[str]:
        """The roles that hold a record's text."""

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
    def shares(self) -> dict[Split, float]:
        """The parts that are cut out of the corpus itself by a share."""
        return self.data.shares

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
        own = frozenset[str]().union(*(source.own_parts for source in self.sources["train"]))
        for part in SPLITS[1:]:
            words += f" · {part} {'its own' if part in own else self._origin(part)}"
        dropped = str(self.dropped)
        return f"{words} · {dropped}" if dropped else words

    def stream(self) -> Iterator[tuple[Split, Record]]:
        """Every record with the part it falls into, in one reading."""
        return chain.from_iterable(self.stream_of(role) for role in self.sources)

    def stream_of(self, role: Split) -> Iterator[tuple[Split, Record]]:
        """The records that the sources of one role hold, each with its part."""
        split = self._split(role)
        for record, own in self._records(role):
            part = split.part_of(record, role=role, own=own)
            if part is not None:
                yield part, record
        if role == "train":
            split.refuse_unmet(where=self.name)

    def _records(self, role: Split) -> Iterator[tuple[Record, frozenset[str]]]:
        """The records of a role, and which parts their source brings itself."""
        for source in self.sources[role]:
            own = source.own_parts
            self._refuse_two_ways(source, role=role, own=own)
            for record in _first(source.records(self.dropped), self.data.limit, own=own):
                yield record, own

    def _split(self, role: Split) -> Splitter:
        """How a role is cut, in shares: a part of so many records has the share that holds them."""
        split = self.data.split(self.text_roles)
        counts = {part: n for part, n in split.shares.items() if isinstance(n, int)}
        if role == "train" and counts:
            places = self._places(role, replace(split, shares={}, dev_from_test=None), "train")
            self._refuse_too_many(sum(counts.values()), len(places), setting=" and ".join(counts))
            found = {part: share_of_so_many(n, places, part=part) for part, n in counts.items()}
            split = replace(split, shares={**split.shares, **found})
        if isinstance(split.dev_from_test, int):
            places = self._places(role, replace(split, dev_from_test=None), "test")
            if places:  # of the roles only one holds what is test
                self._refuse_too_many(split.dev_from_test, len(places), setting="dev_from_test")
                share = share_of_so_many(split.dev_from_test, places, part="dev")
                split = replace(split, dev_from_test=share)
        return split

    def _places(self, role: Split, split: Splitter, part: Split) -> list[float]:
        """Where the records fall that are of a part before anything is taken out of it."""
        place = split.place_in_test if part == "test" else split.place
        # The group of a record is gone once its part is known.
        placed = (
            (place(record), split.part_of(record, role=role, own=own))
            for record, own in self._records(role)
        )
        return [at for at, found in placed if found == part]

    def _refuse_too_many(self, wanted: int, there: int, *, setting: str) -> None:
        if wanted >= there:
            raise UserError(
                f"{wanted:,} records are asked for out of {there:,}, which leaves none",
                topic="data",
                where=f"data.{setting}",
                hint="Ask for fewer, or give the part a file of its own.",
            )

    def role_of(self, part: Split) -> Split:
        """The sources that a part comes from."""
        if part == "dev" and self.data.dev_from_test is not None:
            part = "test"
        return part if part in self.sources else "train"

    def _origin(self, part: Split) -> str:
        if part in self.shares:
            by = f" by {self.data.group}" if self.data.group else ""
            return f"{_told(self.shares[part])} of it{by}"
        if part in self.data.chosen:
            chosen = self.data.chosen[part]
            return f"{chosen.column} = {', '.join(chosen.values)}"
        if part == "dev" and self.data.dev_from_test is not None:
            return f"{_told(self.data.dev_from_test)} of test"
        return ", ".join(source.name for source in self.sources[part])

    def _refuse_two_ways(self, source: Source, *, role: Split, own: frozenset[str]) -> None:
        """A part that the set brings itself cannot also be chosen or given."""
        if role != "train":
            if own and role not in own:
                raise UserError(
                    f"{source.name} has no {role} part",
                    topic="data",
                    where=f"data.{role}",
                    hint=f"Give data.{role} another source, or a share such as 0.05.",
                )
            return
        given = {*self.sources, *self.data.chosen}
        settings = {part: f"data.{part}" for part in ("dev", "test") if part in given}
        if self.data.dev_from_test is not None:
            settings["dev"] = "data.dev_from_test"
        for part, setting in settings.items():
            if part in own:
                raise UserError(
                    f"{source.name} has a {part} part of its own",
                    topic="data",
                    where=setting,
                    hint=f"Take {setting} out.",
                )

    def _every_source(self) -> Iterator[Source]:
        return chain.from_iterable(self.sources.values())


def _told(share: float) -> str:
    """`5 %`, or `500` records."""
    return f"{share:,}" if isinstance(share, int) else f"{100 * share:.3g} %"


def _first(
    records: Iterator[Record], limit: int | None, *, own: frozenset[str]
) -> Iterator[Record]:
    """At most `limit` records of a source; of each part, where it has its own."""
    if limit is None or not own:
        yield from islice(records, limit)
        return
    counts: Counter[str | None] = Counter()
    for record in records:
        counts[record.part] += 1
        if counts[record.part] <= limit:
            yield record
