"""Which part a record falls into: by a share, by what a column holds, or as its source says.

Where dev or test is a share, the part follows from a hash of (seed, group), the group being the
record's own text unless a column or the source gives one:

    u = hash(split_seed, group) / 2⁶⁴        dev if u < dev,  test if u ≥ 1 − test,  else train

So exact duplicates never straddle parts, and the split depends on neither order nor memory. Where
a part is a number of records, it has the share that holds them: those with the smallest u, for test
the largest; all of them are looked at first. Where dev or test is `{ title = ["Warsaw"] }`, it is
the records whose column `title` holds that value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, get_args

from regard.core.errors import UserError
from regard.data.readers.reading import Column, Record, Split

__all__ = [
    "SPLITS",
    "Split",
    "SplitByValue",
    "Splitter",
    "place_in_split",
    "share_of_so_many",
    "written",
]

SPLITS: tuple[Split, ...] = get_args(Split)
MARKS = ("data.group", "data.dev", "data.test")
"Columns that are read to split by, under the settings that name them; no record keeps them."
VALUES_REMEMBERED = 10_000
"For a guess at what was meant; a column of so many different values is no list of names."


@dataclass(frozen=True)
class SplitByValue:
    """The records whose column holds one of some values."""

    column: str
    values: tuple[str, ...]


@dataclass
class Splitter:
    """How the records of one reading are cut; it remembers which values it has met."""

    shares: Mapping[Split, float]
    "Of what is drawn; as many records as it says where it is a whole number."
    chosen: Mapping[Split, SplitByValue]
    group: str | None
    "The column by whose values shares are cut."
    dev_from_test: float | None
    seed: int
    texts: Sequence[str]
    "The roles whose values are a record's group where nothing else is."
    met: dict[Split, set[str]] = field(default_factory=dict)

    def columns(self, role: Split) -> dict[str, Column]:
        """What has to be read of the files of one role besides what is asked for."""
        marks = {}
        if self.group and (role == "train" or (role == "test" and self.dev_from_test is not None)):
            marks["data.group"] = Column(self.group, "data.group", "mark")
        if role == "train":
            for part, chosen in self.chosen.items():
                marks[f"data.{part}"] = Column(chosen.column, f"data.{part}", "mark")
        return marks

    def part_of(self, record: Record, *, role: Split, own: frozenset[str]) -> Split | None:
        """None for records that a source with parts of its own has for another role."""
        if role != "train":
            part: Split | None = role if record.part in (None, role) else None
        elif record.part is not None and record.part != "train":
            part = record.part
        else:
            part = (self._chosen(record) if self.chosen else None) or self._drawn(record, own)
        if part == "test" and self.dev_from_test is not None:
            part = "dev" if self.place_in_test(record) < self.dev_from_test else "test"
        if self.group or self.chosen:
            for mark in MARKS:
                record.pop(mark, None)
        return part

    def place(self, record: Record) -> float:
        return place_in_split(self.group_of(record), seed=self.seed)

    def place_in_test(self, record: Record) -> float:
        # A hash of its own: the test part may itself be the upper end of the first.
        return place_in_split(f"dev from test\0{self.group_of(record)}", seed=self.seed)

    def group_of(self, record: Record) -> str:
        """Records of one group always fall into the same part."""
        named = written(record.get("data.group")) if self.group else ""
        if named.strip():
            return named
        if record.group:
            return record.group
        return "\0".join([written(record[role]) for role in self.texts if role in record])

    def refuse_unmet(self, *, where: str) -> None:
        """Once all is read: a value that no record has would leave a part smaller, unnoticed."""
        for part, chosen in self.chosen.items():
            met = sorted(self.met.get(part, set()))
            for value in chosen.values:
                if value in met:
                    continue
                close = get_close_matches(value, met, n=1, cutoff=0.6)
                guess = f" — did you mean {close[0]!r}?" if close else ""
                shown = ", ".join(repr(each[:40]) for each in met[:5])
                raise UserError(
                    f"data.{part}: no row has {value!r} in column {chosen.column!r}{guess}",
                    topic="data",
                    where=where,
                    hint=f"There are {shown}{' and others' if len(met) > 5 else ''}.",
                )

    def _chosen(self, record: Record) -> Split | None:
        matched: list[Split] = []
        for part, chosen in self.chosen.items():
            value = written(record.get(f"data.{part}"))
            met = self.met.setdefault(part, set())
            if value in chosen.values:
                matched.append(part)
                met.add(value)
            elif len(met) < VALUES_REMEMBERED:
                met.add(value)
        if len(matched) > 1:
            raise UserError(
                "data.dev and data.test both choose this row",
                topic="data",
                where=record.at,
                hint="What is tuned on cannot also judge: choose it for one of them.",
            )
        return matched[0] if matched else None

    def _drawn(self, record: Record, own: frozenset[str]) -> Split:
        """Shares are for the parts that the source does not bring."""
        dev = 0.0 if "dev" in own else self.shares.get("dev", 0.0)
        test = 0.0 if "test" in own else self.shares.get("test", 0.0)
        place = self.place(record)
        return "dev" if place < dev else "test" if place >= 1 - test else "train"


def place_in_split(group: str, *, seed: int) -> float:
    """Where a group falls, uniform in [0, 1)."""
    digest = hashlib.blake2b(f"{seed}\0{group}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53  # 53 bits: exact as a float, below 1


def share_of_so_many(count: int, places: Sequence[float], *, part: Split) -> float:
    """The share that holds `count` of these places; fewer only where a group would be parted."""
    if part == "dev":  # the lowest: those below the next one
        ordered = sorted(places)
        return ordered[count] if count < len(ordered) else 1.0
    highest = sorted(1 - place for place in places)  # exact: places have 53 bits
    while 0 < count < len(highest) and highest[count - 1] == highest[count]:
        count -= 1
    return highest[count - 1] if count else 0.0


def written(value: Any) -> str:
    """A value as text, so that 1 in JSON and 1 in CSV are the same."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
