"""Train/dev/test split: by a fraction, by the values of a column, or as the source defines it.

Where dev or test is a fraction, the split follows from a hash of (seed, group). The group is the
record's own text unless a column or the source gives one:

    u = hash(split_seed, group) / 2⁶⁴        dev if u < dev,  test if u ≥ 1 − test,  else train

So exact duplicates never straddle splits, and the split depends neither on the order of records nor
on state. A number of records is converted into the fraction that holds them, those with the
smallest u (for test the largest), which takes one pass over all records. With
`{ title = ["Warsaw"] }` dev or test is the records whose column `title` has that value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, get_args

from regard.core.errors import UserError, closest
from regard.data.readers.records import Column, Record, Split

__all__ = [
    "SPLITS",
    "Split",
    "SplitByValue",
    "Splitter",
    "as_text",
    "fraction_for_count",
    "split_point",
]

SPLITS: tuple[Split, ...] = get_args(Split)
SPLIT_COLUMNS = ("data.group", "data.dev", "data.test")
"Columns read only for splits and groups, under the settings that name them; removed afterwards."
MAX_SEEN_VALUES = 10_000
"Values remembered for a did-you-mean."


@dataclass(frozen=True)
class SplitByValue:
    """The records whose column has one of these values."""

    column: str
    values: tuple[str, ...]


@dataclass
class Splitter:
    """Assigns records to splits; remembers the column values it has seen."""

    fractions: Mapping[Split, float]
    "Fraction of the records drawn for each split; an int is a number of records."
    by_value: Mapping[Split, SplitByValue]
    group: str | None
    "The column whose values keep records together."
    dev_from_test: float | None
    seed: int
    texts: Sequence[str]
    "The roles whose values are a record's group if nothing else is."
    seen_values: dict[Split, set[str]] = field(default_factory=dict)

    def columns(self, role: Split) -> dict[str, Column]:
        """The columns to read from the files of a role for splits and groups alone."""
        columns = {}
        if self.group:
            decides = role == "train" or (role == "test" and self.dev_from_test is not None)
            columns["data.group"] = Column(
                self.group, "data.group", "split_key", optional=not decides
            )
        if role == "train":
            for split, by_value in self.by_value.items():
                columns[f"data.{split}"] = Column(by_value.column, f"data.{split}", "split_key")
        return columns

    def split_of(self, record: Record, *, role: Split, predefined: frozenset[str]) -> Split | None:
        """The record's split; None if its source assigns it to another role.

        `predefined` are the splits that the source defines itself. Removes `SPLIT_COLUMNS`, and
        makes the value of `data.group` the record's group.
        """
        record.group = self._group_value(record) or record.group
        if role != "train":
            split: Split | None = role if record.split in (None, role) else None
        elif record.split is not None and record.split != "train":
            split = record.split
        else:
            split = (self._match_value(record) if self.by_value else None) or self._draw(
                record, predefined
            )
        if split == "test" and self.dev_from_test is not None:
            split = "dev" if self.point_in_test(record) < self.dev_from_test else "test"
        if self.group or self.by_value:
            for column in SPLIT_COLUMNS:
                record.pop(column, None)
        return split

    def point(self, record: Record) -> float:
        """u of the record, uniform in [0, 1)."""
        return split_point(self.group_key(record), seed=self.seed)

    def point_in_test(self, record: Record) -> float:
        """u for dev_from_test; another hash, because test may be the upper end of the first."""
        return split_point(f"dev from test\0{self.group_key(record)}", seed=self.seed)

    def group_key(self, record: Record) -> str:
        """Records with the same key always fall into the same split."""
        return self._group_value(record) or record.group or self._text_key(record)

    def _group_value(self, record: Record) -> str:
        value = as_text(record.get("data.group")) if self.group else ""
        return value if value.strip() else ""

    def _text_key(self, record: Record) -> str:
        return "\0".join([as_text(record[role]) for role in self.texts if role in record])

    def check_values_seen(self, *, where: str) -> None:
        """After all records: refuse a value that no record had, which would shrink its split."""
        for split, by_value in self.by_value.items():
            seen = sorted(self.seen_values.get(split, set()))
            for value in by_value.values:
                if value in seen:
                    continue
                guess = closest(value, seen, quoted=True)
                shown = ", ".join(repr(each[:40]) for each in seen[:5])
                raise UserError(
                    f"data.{split}: no row has {value!r} in column {by_value.column!r}{guess}",
                    topic="data",
                    where=where,
                    hint=f"There are {shown}{' and others' if len(seen) > 5 else ''}.",
                )

    def _match_value(self, record: Record) -> Split | None:
        matched: list[Split] = []
        for split, by_value in self.by_value.items():
            value = as_text(record.get(f"data.{split}"))
            seen = self.seen_values.setdefault(split, set())
            if value in by_value.values:
                matched.append(split)
                seen.add(value)
            elif len(seen) < MAX_SEEN_VALUES:
                seen.add(value)
        if len(matched) > 1:
            raise record.error(
                "data.dev and data.test both select this row",
                hint="Dev is for tuning, test for the final evaluation: select it for one of them.",
            )
        return matched[0] if matched else None

    def _draw(self, record: Record, predefined: frozenset[str]) -> Split:
        """Fractions apply to the splits that the source does not define."""
        dev = 0.0 if "dev" in predefined else self.fractions.get("dev", 0.0)
        test = 0.0 if "test" in predefined else self.fractions.get("test", 0.0)
        point = self.point(record)
        return "dev" if point < dev else "test" if point >= 1 - test else "train"


def split_point(group: str, *, seed: int) -> float:
    """Hash of (seed, group), uniform in [0, 1)."""
    digest = hashlib.blake2b(f"{seed}\0{group}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53  # 53 bits: exact as a float, below 1


def fraction_for_count(count: int, points: Sequence[float], *, split: Split) -> float:
    """The fraction that holds `count` of these points; fewer if it would divide a group."""
    # There may be very many points, and few are looked at.
    if split == "dev":  # the smallest: those below the next one
        ordered = nsmallest(count + 1, points)
        return ordered[count] if count < len(points) else 1.0
    # Exact: points have 53 bits. One more than counted, for a group that would be divided.
    largest = nsmallest(count + 1, (1 - point for point in points))
    while 0 < count < len(largest) and largest[count - 1] == largest[count]:
        count -= 1
    return largest[count - 1] if count else 0.0


def as_text(value: Any) -> str:
    """A value as a string, so that 1 in JSON equals 1 in CSV; empty where there is none.

    Parquet's whole numbers become 1.0 where one of them is missing, and the missing one NaN."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
