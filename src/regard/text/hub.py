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

from regard.errors import UserError
from regard.text.reading import Dropped, Text, no_such
from regard.text.sources import HUB, Identity, size_and_sha256

ROWS = 256


def open_hub(name: str, *, column: str) -> Hub:
    """The dataset a recipe names; nothing is fetched before its texts are read."""
    address, _, split = name.removeprefix(HUB).partition("@")
    dataset, _, config = address.partition(":")
    if not dataset:
        raise UserError(
            "a dataset's name is missing", topic="data", where=name, mend="Write hub:NAME[:CONFIG]."
        )
    return Hub(name, dataset, config or None, split=split or "train", column=column)


@dataclass(frozen=True)
class Hub:
    """One split of a dataset."""

    name: str
    dataset: str
    config: str | None
    split: str = field(kw_only=True)
    column: str = field(kw_only=True)
    left_out: tuple[Path, ...] = ()
    generated: bool = False

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
                mend="Install it with pip install 'regard[hub]'.",
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
                mend="Check the name, configuration and split, and the network.",
            ) from problem

    def texts(self, dropped: Dropped) -> Iterator[Text]:
        dropped.start(self.name)
        if self.column not in self.table.column_names:
            raise no_such(Path(self.name), "column", self.table.column_names, self.column, at="")
        row = 0
        for rows in self.table.select_columns([self.column]).iter(batch_size=ROWS):
            for text in rows[self.column]:
                row += 1
                if text is not None and not isinstance(text, str):
                    raise UserError(
                        f"column {self.column!r} holds {type(text).__name__}, not text",
                        topic="data",
                        where=f"{self.name}, row {row:,}",
                        mend="Set data.text to the column that holds the text.",
                    )
                if text and text.strip():
                    yield Text(text)
                else:
                    dropped.empty[self.name] += 1

    def identities(self) -> Iterator[Identity]:
        for file in self.table.cache_files:
            yield Identity(self.name, *size_and_sha256(Path(file["filename"])))
