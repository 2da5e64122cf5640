"""What a user's sources hold: files by split, the table they are, and its readings.

    recognise(["reviews.csv"], Overrides())  →  SourceContents(files, table, readings, …)

Overrides are what the user said; they replace what would be recognised.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.data.corpus import Split
from regard.data.overlap.straddling import likely_group_columns
from regard.data.readers.formats import file_format
from regard.data.recognition import names
from regard.data.recognition.files import Files, find_files, parallel_name
from regard.data.recognition.profile import (
    ColumnProfile,
    as_text,
    is_missing,
    profile_column,
)
from regard.data.recognition.reading import LANGUAGE_MODEL, Reading
from regard.data.recognition.roles import find_readings
from regard.data.recognition.table import TableSample, read_tables
from regard.runs.proposals.overrides import (
    RECOGNISED,
    Overrides,
    check_classes,
    check_overrides,
    check_task,
)
from regard.tasks import TASKS

LISTS = (
    'Write a row for each text, such as {"text": "…", "label": "…"}; a conversation as one text.'
)
WORD_A_ROW = (
    "A word in each row has no sentences: write a .conll file, a word and its tag on each line and "
    "a blank line after each sentence."
)


@dataclass(frozen=True)
class SourceContents:
    """The sources as a recipe names them, and what they hold."""

    files: Files
    readings: tuple[Reading, ...]
    "The likeliest first; of plain text one, the language model of it."
    tables: Mapping[Split, TableSample] = field(default_factory=dict)
    "Of each split that has a file of its own; empty for plain text."
    split_column: str | None = None
    "A column whose values are train, dev and test."
    remarks: tuple[str, ...] = ()

    @property
    def table(self) -> TableSample | None:
        return self.tables.get("train")

    def group(self, reading: Reading, overrides: Overrides) -> str | None:
        """The column whose rows stay in one split."""
        if overrides.group is not None or self.table is None:
            return overrides.group
        target, columns = reading.target, self.table.columns
        used = {*reading.optional.values(), target, self.split_column}
        # One of two inputs may be shared by many rows, as a passage is.
        used |= {*reading.inputs} if len(reading.inputs) == 1 else set()
        others = {name: values for name, values in columns.items() if name not in used}
        if target is None:
            return next(iter(likely_group_columns(others)), None)
        likely = likely_group_columns({**others, target: columns[target]}, label=target)
        return next(iter(likely), None)


def recognise(sources: Sequence[str], overrides: Overrides) -> SourceContents:
    check_task(overrides.task)
    if not all(source.strip() for source in sources):
        hint = "Give files, a folder, a pattern, or a built-in corpus."
        raise UserError("the name of a source is empty", topic="new", hint=hint)
    files = find_files(sources) or _pattern(sources)
    if files.languages:
        return _recognise_parallel(files, overrides)
    first = files.train
    if not first.is_file() or file_format(first) == "txt":
        return _recognise_text(files, first, overrides)
    tables: dict[Split, TableSample] = {
        "train": read_tables(files.paths.get("train", [first]), header=overrides.header)
    }
    train = tables["train"]
    check_overrides(train, overrides)
    split_column = None if len(files.splits) > 1 else _split_column(train.columns)
    columns = {
        name: values
        for name, values in train.columns.items()
        if name.strip() and name != split_column  # a recipe cannot name what has no name
    }
    readings = choose(find_readings(columns), columns, overrides, where=str(first))
    found = SourceContents(files, tuple(readings), tables, split_column, files.remarks)
    return _with_other_splits(found)


def choose(
    readings: Sequence[Reading],
    columns: Mapping[str, Sequence[Any]],
    overrides: Overrides,
    *,
    where: str,
) -> list[Reading]:
    """The readings that fit what the user said; one made of it, where none was found."""
    fitting = [reading for reading in readings if _fits(reading, overrides)]
    if not fitting and overrides.texts:
        fitting = list(_forced(columns, overrides))
    if not fitting and overrides.label is not None and not overrides.texts:
        # The label is said, and was not recognised as one: look again as if it were.
        texts = [reading.columns["text"] for reading in readings if reading.task == LANGUAGE_MODEL]
        found = (_forced(columns, replace(overrides, texts=(text,))) for text in texts)
        fitting = [reading for forced in found for reading in forced]
    if fitting:
        if overrides.label is not None:
            check_classes(fitting[0], columns[overrides.label], where=where)
        return fitting
    if overrides == Overrides(group=overrides.group, header=overrides.header):
        kinds = [profile_column(name, values) for name, values in columns.items()]
        seen = ", ".join(f"{one.name!r} ({one.kind})" for one in kinds[:8])
        raise UserError(
            f"no column of text: {seen}{', …' if len(kinds) > 8 else ''}",
            topic="new",
            where=where,
            hint=_how_to_give_texts(kinds),
        )
    raise UserError(
        "no reading fits --task, --text and --label as given",
        topic="new",
        where=where,
        hint="A task takes one text or two, and the column to predict: "
        + (f"found were {readings[0].describe()}" if readings else "no text was found")
        + ".",
    )


def _how_to_give_texts(columns: Sequence[ColumnProfile]) -> str:
    if _has_a_word_a_row(columns):
        return WORD_A_ROW
    if all(one.kind in ("texts", "sequence", "other") for one in columns):
        return LISTS
    return "Name it with --text."


def _has_a_word_a_row(columns: Sequence[ColumnProfile]) -> bool:
    """Whether a table has a word and its tag in each row, instead of a sentence."""
    words = any(names.TOKEN.fullmatch(one.name) and one.mean_words < 1.5 for one in columns)
    return words and any(names.TAG.fullmatch(one.name) for one in columns)


def _fits(reading: Reading, overrides: Overrides) -> bool:
    is_label = overrides.label in (None, reading.target)
    is_task = overrides.task in (None, reading.task)
    return is_label and is_task and (not overrides.texts or {*overrides.texts} == {*reading.inputs})


def _forced(columns: Mapping[str, Sequence[Any]], overrides: Overrides) -> list[Reading]:
    """The reading that the user names, whatever the columns look like."""
    *texts, label = (*overrides.texts, overrides.label)
    if label is None:
        fits_text = overrides.task in (None, LANGUAGE_MODEL) and len(texts) == 1
        return [Reading(LANGUAGE_MODEL, {"text": texts[0]}, 0.0)] if fits_text else []
    profile = profile_column(label, columns[label])
    is_number = profile.kind == "number"
    by_texts = {
        1: ["regression" if is_number else "classification"],
        2: ["similarity" if is_number else "pairs"],
    }
    possible = by_texts.get(len(texts), [])
    if overrides.task is not None:
        roles = (
            TASKS.get(overrides.task).part().column_roles if overrides.task in RECOGNISED else ()
        )
        possible = [overrides.task] if len(roles) == len(texts) + 1 else []
    readings = []
    for task in possible:
        roles = TASKS.get(task).part().column_roles
        named = dict(zip(roles, (*texts, label), strict=True))
        if task == "similarity" and profile.numbers:
            low, high = profile.numbers
            settings = {"min_score": min(0.0, low), "max_score": high}
            readings.append(Reading(task, named, 0.0, settings))
        else:
            readings.append(Reading(task, named, 0.0))
    return readings


def _split_column(columns: Mapping[str, Sequence[Any]]) -> str | None:
    """A column that says of each row whether it is train, dev or test."""
    for name, values in columns.items():
        if not names.SPLIT.fullmatch(name):
            continue
        found = {as_text(value) for value in values if not is_missing(value)}
        splits = [names.split_of_name(value) for value in found]
        if "train" in splits and None not in splits and len(set(splits)) > 1:
            return name
    return None


def _with_other_splits(found: SourceContents) -> SourceContents:
    """The files of dev and test, those left out that lack a column of the likeliest reading."""
    train = found.tables["train"]
    tables, splits, remarks = dict(found.tables), dict(found.files.splits), [*found.remarks]
    for split in ("dev", "test"):
        if split not in splits:
            continue
        read = read_tables(found.files.paths[split], header=train.header)
        missing = [name for name in found.readings[0].columns.values() if name not in read.columns]
        if missing:
            remarks.append(f"{read.path.name} is left out, for it lacks {missing[0]!r}")
            del splits[split]
        else:
            tables[split] = read
    files = replace(found.files, splits=splits)
    return replace(found, files=files, tables=tables, remarks=tuple(remarks))


def _recognise_parallel(files: Files, overrides: Overrides) -> SourceContents:
    languages = (*overrides.texts, *((overrides.label,) if overrides.label else ()))
    if unknown := next((one for one in languages if one not in files.languages), None):
        raise UserError(
            f"no side of the files is called {unknown}",
            topic="new",
            where=files.splits["train"][0],
            hint=f"There are {', '.join(files.languages)}.",
        )
    if overrides.task not in (None, "translation"):
        raise UserError(
            f"--task {overrides.task} does not fit parallel files of several languages",
            topic="new",
            hint="Leave it out, or give the file of one language.",
        )
    left = [one for one in files.languages if one not in languages]
    if len(files.languages) > 2 and len(languages) < 2:
        raise UserError(
            f"there are {len(files.languages)} languages, {', '.join(files.languages)}, and no "
            "pair of them is likelier than another",
            topic="new",
            where=files.splits["train"][0],
            hint="Choose source and target, such as --text en --label de.",
        )
    left.sort(key=lambda language: language != "en")  # English first, as the source
    source = overrides.texts[0] if overrides.texts else left[0]
    target = overrides.label or next(one for one in reversed(files.languages) if one != source)
    splits = {
        split: tuple(parallel_name(template, source, target) for template in templates)
        for split, templates in files.splits.items()
    }
    reading = Reading("translation", {"source": source, "target": target}, 0.0)
    files = Files(splits, remarks=files.remarks)
    return SourceContents(files, (reading,), remarks=files.remarks)


def _recognise_text(files: Files, first: Path, overrides: Overrides) -> SourceContents:
    """Plain text, and sources that only the readers know: a language model."""
    if overrides.task not in (None, LANGUAGE_MODEL) or overrides.label is not None:
        given = f"--task {overrides.task}" if overrides.task else f"--label {overrides.label}"
        raise UserError(
            f"{given} needs columns, but {first} is plain text",
            topic="new",
            hint="Give a table: csv, tsv, jsonl or parquet.",
        )
    if overrides.texts and first.is_file():
        raise UserError(
            f"--text {overrides.texts[0]} names a column, but {first} is plain text",
            topic="new",
            hint="Leave it out; --unit sets the document unit.",
        )
    columns = {"text": overrides.texts[0] if overrides.texts else "text"}
    return SourceContents(files, (Reading(LANGUAGE_MODEL, columns, 0.0),), remarks=files.remarks)


def _pattern(sources: Sequence[str]) -> Files:
    """Patterns, built-in corpora and datasets, as they were given."""
    files = Files({"train": tuple(sources)})
    if len(sources) == 1 and glob.has_magic(sources[0]):
        found = sorted(glob.glob(sources[0], recursive=True))  # noqa: PTH207
        if found and file_format(Path(found[0])) != "txt":
            return Files({"train": tuple(sources)}, paths={"train": tuple(map(Path, found))})
    return files
