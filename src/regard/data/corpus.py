"""The `[data]` settings of a recipe, and the text corpus they open: train, dev and test."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from regard.core.errors import UserError
from regard.core.settings import Settings
from regard.data.readers.records import Column, ColumnType, ReadOptions, Unit
from regard.data.record_corpus import Corpus
from regard.data.sources import Source, find_source
from regard.data.splits import SPLITS, Split, SplitByValue, Splitter, as_text, split_point

__all__ = ["SPLITS", "Corpus", "Data", "Split", "open_corpus", "split_point"]


def _check_names(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"give a name, a path, a pattern or a list of these, not {value!r}")
    if not names or not all(name.strip() for name in names):
        raise ValueError("the name is empty; give a built-in corpus, a path or a pattern")
    return value if isinstance(value, str) else tuple(names)


def _check_split(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return _check_by_value(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _check_names(value)
    if isinstance(value, int) and value > 0:
        return value
    if not 0 < value < 0.5:
        raise ValueError(
            f"{value} is not a valid fraction; give one above 0 and below 0.5 (0.05 is 5 % of the "
            "documents), a number of documents, or a path"
        )
    return value


def _check_dev_from_test(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or (is_number and (0 < value < 1 or (isinstance(value, int) and value > 0))):
        return value
    raise ValueError(
        f"{value!r} is not allowed: give a fraction between 0 and 1, or a number of rows"
    )


def _check_by_value(value: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    columns = {
        str(column): tuple(values) if isinstance(values, list | tuple) else (values,)
        for column, values in value.items()
    }
    for column, values in columns.items():
        if not values or not all(isinstance(each, str | int | float) for each in values):
            raise ValueError(f'give column {column!r} a list of values: {{ {column} = ["…"] }}')
    if len(columns) != 1:
        raise ValueError('name one column and its values: { title = ["Warsaw", "Force"] }')
    return columns


SourceNames = Annotated[str | tuple[str, ...], BeforeValidator(_check_names)]
SplitDefinition = Annotated[
    int | float | str | tuple[str, ...] | dict[str, tuple[bool | int | float | str, ...]] | None,
    BeforeValidator(_check_split),
]
DevFromTest = Annotated[int | float | None, BeforeValidator(_check_dev_from_test)]


class Data(Settings):
    """The texts of a run and their train, dev and test splits."""

    corpus: SourceNames
    """A built-in corpus, a file (txt, csv, tsv, jsonl, parquet, conll, SQuAD's json; also .gz .xz
    .zst), a folder, a pattern such as "texts/*.txt", parallel files "train.{en,de}" (columns en and
    de), a dataset "hub:NAME[:CONFIG]", or a list of these. Paths are relative to the recipe, or
    else to the current folder."""

    text: str = Field(default="text", min_length=1)
    """The column or key that holds the text, in tables and JSON lines (answer.text: a key inside an
    object); a task names its own columns."""

    header: bool = True
    "Whether CSV and TSV files begin with a header line; without, their columns are called 1, 2, …"

    unit: Unit = "line"
    "What one document of plain text is: a line, a paragraph (blank lines between), or a file."

    dev: SplitDefinition = 0.05
    """The validation split, for tuning and model selection: a fraction of the documents (0.05), a
    number of them (500), files, or the rows with certain values of a column,
    { title = ["Warsaw", "Force"] }."""

    test: SplitDefinition = 0.05
    "The split for the final evaluation: a fraction or number of documents, files, or rows."

    dev_from_test: DevFromTest = None
    "Instead of data.dev: this fraction of the test split, or number of its rows, becomes dev."

    group: str | None = Field(default=None, min_length=1)
    """A column whose values make rows a group, such as the author or the article: a group never
    straddles splits that are fractions, and scores vary over groups, not over rows. Files of dev
    and test may lack it: their rows then stand alone."""

    drop_overlap: bool = False
    "Leave out of training the rows that dev or test hold too, word for word or nearly so."

    split_seed: int = 0
    "Seed of the split, where dev or test is a fraction."

    max_tokens: int | None = Field(default=None, ge=1)
    "Truncate documents to this many tokens (what is cut off is counted); unlimited by default."

    skip_bad_rows: bool = False
    "Drop and count rows that cannot be read, instead of stopping at the first one."

    limit: int | None = Field(default=None, ge=1)
    "Read at most this many documents of each source; all by default."

    @model_validator(mode="before")
    @classmethod
    def _one_definition_of_dev(cls, values: Any) -> Any:
        """dev_from_test replaces the default of dev."""
        if not isinstance(values, dict) or values.get("dev_from_test") is None:
            return values
        if values.get("dev") is not None:
            raise ValueError("dev and dev_from_test are both given; remove one of them")
        return {**values, "dev": None}

    @model_validator(mode="after")
    def _splits_are_consistent(self) -> Self:
        if self.test is None or (self.dev is None and self.dev_from_test is None):
            raise ValueError("dev and test are required; give a fraction such as 0.05, or a path")
        if {"dev", "test"} <= self.by_value.keys():
            dev, test = self.by_value["dev"], self.by_value["test"]
            common = [value for value in dev.values if value in test.values]
            if dev.column == test.column and common:
                raise ValueError(f"{common[0]!r} is selected both for dev and for test")
        return self

    @property
    def fractions(self) -> dict[Split, float]:
        """The splits drawn from the corpus itself: a fraction, or a number of records (int)."""
        given = self._given_splits()
        return {split: value for split, value in given.items() if isinstance(value, int | float)}

    @property
    def by_value(self) -> dict[Split, SplitByValue]:
        """The splits given as rows with certain values."""
        return {
            split: SplitByValue(column, tuple(map(as_text, values)))
            for split, table in self._given_splits().items()
            if isinstance(table, dict)
            for column, values in table.items()
        }

    @property
    def files(self) -> dict[Split, tuple[str, ...]]:
        """The source names of each split that has its own."""
        given = {"train": self.corpus, **self._given_splits()}
        return {
            split: (value,) if isinstance(value, str) else value
            for split, value in given.items()
            if isinstance(value, str | tuple)
        }

    def splitter(self, texts: Sequence[str]) -> Splitter:
        """The splitter of records whose text is in the roles `texts`."""
        return Splitter(
            fractions=self.fractions,
            by_value=self.by_value,
            group=self.group,
            dev_from_test=self.dev_from_test,
            seed=self.split_seed,
            texts=texts,
        )

    def _given_splits(self) -> dict[Split, Any]:
        return {"dev": self.dev, "test": self.test}


def open_corpus(
    data: Data,
    columns: Mapping[str, str] | None = None,
    *,
    types: Mapping[str, ColumnType] | None = None,
    optional: Collection[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Corpus:
    """Find the sources of `data`; nothing is read yet.

    `columns` maps each role to a column name; by default the only role is `text`. `types` gives the
    type of a role's values; by default the first role is a text and the others any value. An
    `optional` column may be missing, in the file or in a row. Errors name the setting of a column:
    task.ROLE, or what `settings` says.
    """
    if columns is None:
        columns, settings = {"text": data.text}, {"text": "data.text"}
    by_role = columns_by_role(columns, types=types, optional=optional, settings=settings)
    splitter = data.splitter(())
    sources: dict[Split, list[Source]] = {}
    for split, found in data.files.items():
        options = ReadOptions(
            columns={**by_role, **splitter.columns(split)},
            unit=data.unit,
            skip_bad_rows=data.skip_bad_rows,
            header=data.header,
        )
        sources[split] = [find_source(name, options) for name in found]
    _check_sources_differ(sources)
    return Corpus(data, sources, by_role)


def columns_by_role(
    columns: Mapping[str, str],
    *,
    types: Mapping[str, ColumnType] | None = None,
    optional: Collection[str] = (),
    settings: Mapping[str, str] | None = None,
) -> dict[str, Column]:
    """The columns to read, as described in `open_corpus`."""
    column_types: dict[str, ColumnType] = {next(iter(columns)): "text", **(types or {})}
    names = {role: f"task.{role}" for role in columns} | dict(settings or {})
    return {
        role: Column(name, names[role], column_types.get(role, "value"), role in optional)
        for role, name in columns.items()
    }


def _check_sources_differ(sources: Mapping[Split, Sequence[Source]]) -> None:
    setting = {"train": "data.corpus", "dev": "data.dev", "test": "data.test"}
    owner: dict[str, Split] = {}
    pairs = [(split, source) for split, own in sources.items() for source in own]
    for split, source in pairs:
        for key in source.keys:
            if key not in owner:
                owner[key] = split
                continue
            what, hint = f"given twice in {setting[split]}", "Name it once."
            if owner[key] != split:
                what = f"given both as {setting[owner[key]]} and as {setting[split]}"
                hint = (
                    "Data for training or tuning cannot also be used for evaluation: remove it "
                    f"from one of them, or give {setting[split]} a fraction such as 0.05."
                )
            raise UserError(what, topic="data", where=_shown(key, source), hint=hint)


def _shown(key: str, source: Source) -> str:
    path = Path(key)
    here = Path.cwd()
    if not path.is_absolute():
        return source.name
    return str(path.relative_to(here)) if path.is_relative_to(here) else key
