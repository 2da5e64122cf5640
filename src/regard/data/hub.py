"""Hugging Face datasets as corpora: `hub:NAME`, `hub:NAME:CONFIG`, either with `@SPLIT`.

The `datasets` library is an extra. It stores a dataset as memory-mapped Arrow files: reading needs
little memory and, once downloaded, no network; the files identify the texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.data.readers.records import DropCounts, RawRow, ReadOptions, Record, RecordReader
from regard.data.sources import HUB_PREFIX, Source, SourceIdentity, size_and_sha256

BATCH_ROWS = 256


def open_hub_dataset(name: str, *, options: ReadOptions) -> HubSource:
    """The dataset named in a recipe; nothing is downloaded before its texts are read."""
    address, _, split = name.removeprefix(HUB_PREFIX).partition("@")
    dataset, _, config = address.partition(":")
    if not dataset:
        raise UserError(
            "a dataset's name is missing", topic="data", where=name, hint="Write hub:NAME[:CONFIG]."
        )
    return HubSource(name, options, dataset, config or None, split or "train")


@dataclass(frozen=True)
class HubSource(Source):
    """One split of a dataset."""

    dataset: str
    config: str | None
    split: str

    @property
    def keys(self) -> Sequence[str]:
        return [f"{self.dataset}:{self.config or ''}@{self.split}"]

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
            # The library raises its own errors and those of requests and fsspec: all of them mean
            # that the dataset could not be loaded, and the message says why.
            why = (str(problem).splitlines() or [type(problem).__name__])[0]
            raise UserError(
                f"the dataset could not be loaded ({why})",
                topic="data",
                where=self.name,
                hint="Check the name, configuration and split, and the network.",
            ) from problem

    def records(self, dropped: DropCounts) -> Iterator[Record]:
        reader = RecordReader(self.name, self.options, dropped)
        return reader.records(self._rows(reader))

    def _rows(self, reader: RecordReader) -> Iterator[RawRow]:
        names = reader.match_columns(self.table.column_names)
        row = 0
        for rows in self.table.select_columns(sorted(set(names.values()))).iter(
            batch_size=BATCH_ROWS
        ):
            for i in range(len(next(iter(rows.values())))):
                row += 1
                values = {role: rows[name][i] for role, name in names.items()}
                yield RawRow(f"row {row:,}", values)

    def identities(self) -> Iterator[SourceIdentity]:
        for file in self.table.cache_files:
            yield SourceIdentity(self.name, *size_and_sha256(Path(file["filename"])))
