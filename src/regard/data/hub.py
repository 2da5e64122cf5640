"""Hugging Face datasets as corpora: `hub:NAME`, `hub:NAME:CONFIG`, either with `@SPLIT`.

The `datasets` library is an extra. It keeps a dataset as memory-mapped Arrow files, so reading
needs little memory, works without a network once fetched, and those files identify the texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.data.readers.reading import DropCounts, RawRow, ReadOptions, Record, RecordReader
from regard.data.sources import HUB, Identity, size_and_sha256

ROWS = 256


def open_hub(name: str, *, reading: ReadOptions) -> Hub:
    """The dataset a recipe names; nothing is fetched before its texts are read."""
    address, _, split = name.removeprefix(HUB).partition("@")
    dataset, _, config = address.partition(":")
    if not dataset:
        raise UserError(
            "a dataset's name is missing", topic="data", where=name, hint="Write hub:NAME[:CONFIG]."
        )
    return Hub(name, dataset, config or None, split=split or "train", reading=reading)


@dataclass(frozen=True)
class Hub:
    """One split of a dataset."""

    name: str
    dataset: str
    config: str | None
    split: str = field(kw_only=True)
    reading: ReadOptions = field(kw_only=True)
    left_out: tuple[Path, ...] = ()
    generated: bool = False
    own_parts: frozenset[str] = frozenset()

    @property
    def keys(self) -> tuple[str, ...]:
        return (f"{self.dataset}:{self.config or ''}@{self.split}",)

    @cached_property
    def table(self) -> Any:
        try:
            import datasets
        except ImportError:
            raise UserError(
                "reading from the hub needs the datasets library",
                topic="data",
                where=self.name,
                hint="Install it with pip install 'regard[hub]'.",
            ) from None
        try:
            return datasets.load_dataset(self.dataset, self.config, split=self.split)
        except Exception as problem:
            # The library raises its own, requests', fsspec's and plain errors alike: all of them
            # mean that this name could not be had, and its own words say why.
            why = (str(problem).splitlines() or [type(problem).__name__])[0]
            raise UserError(
                f"the dataset could not be had ({why})",
                topic="data",
                where=self.name,
                hint="Check the name, configuration and split, and the network.",
            ) from problem

    def records(self, dropped: DropCounts) -> Iterator[Record]:
        visit = RecordReader(self.name, self.reading, dropped)
        yield from visit.records(self._rows(visit))

    def _rows(self, visit: RecordReader) -> Iterator[RawRow]:
        names = visit.found(self.table.column_names)
        row = 0
        for rows in self.table.select_columns(sorted(set(names.values()))).iter(batch_size=ROWS):
            for place in range(len(next(iter(rows.values())))):
                row += 1
                values = {role: rows[name][place] for role, name in names.items()}
                yield RawRow(f"row {row:,}", values)

    def identities(self) -> Iterator[Identity]:
        for file in self.table.cache_files:
            yield Identity(self.name, *size_and_sha256(Path(file["filename"])))
