"""A corpus: the `[data]` table of a recipe, opened as three streams of texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from regard.core.errors import UserError
from regard.core.settings import Settings
from regard.data.readers.reading import Column, ReadOptions, Unit
from regard.data.sources import Source, find_sources
from regard.data.split_corpus import SplitCorpus
from regard.data.splits import SPLITS, Split, SplitByValue, Splitter, place_in_split, written

__all__ = ["SPLITS", "Corpus", "Data", "Split", "find_parts", "open_corpus", "place_in_split"]


def _check_names(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"give a name, a path, a pattern or a list of these, not {value!r}")
    if not names or not all(name.strip() for name in names):
        raise ValueError("the name is empty; give a built-in corpus, a path or a pattern")
    return value if isinstance(value, str) else tuple(names)


def _check_part(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return _check_chosen(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _check_names(value)
    if isinstance(value, int) and value > 0:
        return value
    if not 0 < value < 0.5:
        raise ValueError(
            f"{value} is no share; give one above 0 and below 0.5 (0.05 is a document in twenty), "
            "a number of documents, or a path"
        )
    return value


def _check_of_test(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or (is_number and (0 < value < 1 or (isinstance(value, int) and value > 0))):
        return value
    raise ValueError(f"{value!r} is not allowed: give a share between 0 and 1, or a number of rows")


def _check_chosen(value: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    chosen = {
        str(column): tuple(values) if isinstance(values, list | tuple) else (values,)
        for column, values in value.items()
    }
    for column, values in chosen.items():
        if not values or not all(isinstance(each, str | int | float) for each in values):
            raise ValueError(f'give column {column!r} a list of values: {{ {column} = ["…"] }}')
    if len(chosen) != 1:
        raise ValueError('name one column and its values: { title = ["Warsaw", "Force"] }')
    return chosen


Names = Annotated[str | tuple[str, ...], BeforeValidator(_check_names)]
OfAPart = Annotated[
    int | float | str | tuple[str, ...] | dict[str, tuple[bool | int | float | str, ...]] | None,
    BeforeValidator(_check_part),
]
OfTest = Annotated[int | float | None, BeforeValidator(_check_of_test)]


class Data(Settings):
    """Which texts a run reads, and how they are cut into train, dev and test."""

    corpus: Names
    """A built-in corpus, a file (txt, csv, tsv, jsonl, parquet, SQuAD's json; also .gz .xz .zst), a
    folder, a pattern such as "texts/*.txt", parallel files "train.{en,de}" (columns en and de), a
    dataset "hub:NAME[:CONFIG]", or a list of these."""

    text: str = Field(default="text", min_length=1)
    "The column or key that holds the text, in tables and JSON lines; a task names its own columns."

    header: bool = True
    "Whether CSV and TSV files begin with a header line; without, their columns are called 1, 2, …"

    unit: Unit = "line"
    "What one document is in plain text: a line, a paragraph (blank lines between), or a file."

    dev: OfAPart = 0.05
    """The part that choices are made on: a share of the documents (0.05), how many (500), files of
    its own, or the rows whose column holds certain values, { title = ["Warsaw", "Force"] }."""

    test: OfAPart = 0.05
    "The part that only judges: a share or a number of documents, files, or rows by a column."

    dev_from_test: OfTest = None
    "Instead of data.dev: this share of the test part, or so many of its rows, becomes dev."

    group: str | None = Field(default=None, min_length=1)
    "A column by whose values shares are cut, so that one article never straddles parts."

    split_seed: int = 0
    "Which documents fall into dev and test where these are shares."

    cut: int | None = Field(default=None, ge=1)
    "Documents are cut after this many tokens (what is lost is counted); none by default."

    skip_bad_rows: bool = False
    "Drop and count rows that cannot be read, instead of stopping at the first."

    limit: int | None = Field(default=None, ge=1)
    "Read at most this many documents of each source; all by default."

    @model_validator(mode="before")
    @classmethod
    def _dev_from_one_place(cls, values: Any) -> Any:
        """With a share of test as dev there is no share of the corpus beside it."""
        if not isinstance(values, dict) or values.get("dev_from_test") is None:
            return values
        if values.get("dev") is not None:
            raise ValueError("dev and dev_from_test are both given; take one of them out")
        return {**values, "dev": None}

    @model_validator(mode="after")
    def _parts_are_whole(self) -> Self:
        if self.test is None or (self.dev is None and self.dev_from_test is None):
            raise ValueError("dev and test are needed; give a share such as 0.05, or a path")
        if {"dev", "test"} <= self.chosen.keys():
            dev, test = self.chosen["dev"], self.chosen["test"]
            both = [value for value in dev.values if value in test.values]
            if dev.column == test.column and both:
                raise ValueError(f"{both[0]!r} is chosen both for dev and for test")
        if self.group and not self.shares and self.dev_from_test is None:
            raise ValueError("group cuts shares, and no part is a share; take it out")
        return self

    @property
    def shares(self) -> dict[Split, float]:
        """The parts that are cut out of the corpus itself: a share, or as many records."""
        given = self._given_parts()
        return {part: value for part, value in given.items() if isinstance(value, int | float)}

    @property
    def chosen(self) -> dict[Split, SplitByValue]:
        """The parts that are the rows with certain values."""
        return {
            part: SplitByValue(column, tuple(map(written, values)))
            for part, table in self._given_parts().items()
            if isinstance(table, dict)
            for column, values in table.items()
        }

    @property
    def files(self) -> dict[Split, tuple[str, ...]]:
        """What each part that has sources of its own names."""
        given = {"train": self.corpus, **self._given_parts()}
        return {
            part: (value,) if isinstance(value, str) else value
            for part, value in given.items()
            if isinstance(value, str | tuple)
        }

    def split(self, texts: Sequence[str]) -> Splitter:
        """How records are cut, whose text stands in the roles `texts`."""
        return Splitter(
            shares=self.shares,
            chosen=self.chosen,
            group=self.group,
            dev_from_test=self.dev_from_test,
            seed=self.split_seed,
            texts=texts,
        )

    def _given_parts(self) -> dict[Split, Any]:
        return {"dev": self.dev, "test": self.test}


def open_corpus(data: Data, *, base: Path = Path()) -> Corpus:
    """Find what `data` names, below `base` where relative; nothing is read yet."""
    return Corpus(data, find_parts(data, {"text": Column(data.text)}, base=base))


def find_parts(
    data: Data, columns: Mapping[str, Column], *, base: Path
) -> dict[Split, list[Source]]:
    """The sources of each part that has its own, to be read for `columns` and what splits them."""
    split = data.split(())
    sources: dict[Split, list[Source]] = {}
    for part, names in data.files.items():
        reading = ReadOptions(
            columns={**columns, **split.columns(part)},
            unit=data.unit,
            skip_bad_rows=data.skip_bad_rows,
            header=data.header,
        )
        sources[part] = find_sources(names, reading=reading, base=base)
    _refuse_the_same_twice(sources)
    return sources


@dataclass
class Corpus(SplitCorpus):
    """Texts in three parts, streamed from their sources as often as asked."""

    @property
    def text_roles(self) -> Sequence[str]:
        return ("text",)

    def texts(self, part: Split) -> Iterator[str]:
        """The texts of one part, in the order of their sources."""
        streamed = self.stream_of(self.role_of(part))
        return (record["text"] for found, record in streamed if found == part)

    def parted(self) -> Iterator[tuple[Split, str]]:
        """Every text with the part it falls into, in one reading."""
        return ((part, record["text"]) for part, record in self.stream())


def _refuse_the_same_twice(sources: Mapping[Split, Sequence[Source]]) -> None:
    setting = {"train": "data.corpus", "dev": "data.dev", "test": "data.test"}
    owner: dict[str, Split] = {}
    every = [(part, source) for part, these in sources.items() for source in these]
    for part, source in every:
        for key in source.keys:
            if key not in owner:
                owner[key] = part
                continue
            what, hint = f"given twice in {setting[part]}", "Name it once."
            if owner[key] != part:
                what = f"given both as {setting[owner[key]]} and as {setting[part]}"
                hint = (
                    "What is trained or tuned on cannot also judge: take it out of one of them, "
                    f"or give {setting[part]} a share such as 0.05."
                )
            raise UserError(what, topic="data", where=_shown(key, source), hint=hint)


def _shown(key: str, source: Source) -> str:
    path = Path(key)
    here = Path.cwd()
    if not path.is_absolute():
        return source.name
    return str(path.relative_to(here)) if path.is_relative_to(here) else key
