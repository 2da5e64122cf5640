"""A recipe and a first study for what was recognised, and the lines that say what was seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import UserError
from regard.data.corpus import Data, open_corpus
from regard.data.recognition.profile import profile_column
from regard.data.recognition.reading import LANGUAGE_MODEL, Reading
from regard.data.recognition.table import TableSample
from regard.evaluation.formatting import join_words
from regard.runs.proposals.data_settings import (
    JUDGED_BY_ACCURACY,
    column_splits,
    data_settings,
    document_unit,
    drawn_splits,
    fractions,
    given_splits,
    group_setting,
    missing_splits,
)
from regard.runs.proposals.describe import columns_left_out, label_line, table_line, text_line
from regard.runs.proposals.doubts import table_doubts
from regard.runs.proposals.language_model import (
    begins_with_labels,
    choose_language_model,
    folders_like_labels,
    looks_like_a_table,
    looks_tagged,
    preview_corpus,
)
from regard.runs.proposals.lengths import measure, measure_texts
from regard.runs.proposals.overlap import copied_rows
from regard.runs.proposals.overrides import Overrides
from regard.runs.proposals.recipe_text import RecipeSetting, recipe_toml
from regard.runs.proposals.recognise import SourceContents
from regard.runs.proposals.split_sizes import propose_document_fraction
from regard.runs.proposals.study_text import deciding_score, study_toml
from regard.runs.proposals.task_model import ModelChoice, choose_model
from regard.tasks import TASKS

MIN_ROWS = 20
"With fewer there is nothing to train and test on."


@dataclass(frozen=True)
class Proposal:
    recipe: str
    "TOML."
    study: str
    "TOML; it changes one thing of the recipe."
    said: tuple[str, ...]
    "What was seen and chosen, a line each."


def propose(
    found: SourceContents, reading: Reading, overrides: Overrides, *, name: str, recipe_file: Path
) -> Proposal:
    """`recipe_file` is where the recipe will be, for the study names it."""
    group = found.group(reading, overrides)
    if group == reading.columns.get("context"):
        group = None  # questions about one passage stay together anyway
    if reading.task == LANGUAGE_MODEL:
        drawn, model, said = _texts(found, reading, overrides)
    elif found.table is None:
        drawn, model, said = _parallel(found)
    else:
        drawn, model, said = _rows(found, found.table, reading, group)
    decides = deciding_score(found, reading)
    recipe = recipe_toml(
        [
            f"{name}: {reading.describe()}",
            "Check it with `regard validate`, run it with `regard train`. All settings: "
            "docs/settings.md.",
        ],
        {
            "": [RecipeSetting("name", name), *model.top],
            "data": [*data_settings(found, reading, overrides), *drawn, *group_setting(group)],
            "tokenizer": model.tokenizer,
            "model": model.model,
            "task": [*_task(reading), *model.task] if reading.task != LANGUAGE_MODEL else [],
            "train": [*model.train, RecipeSetting("seed", 0)],
        },
    )
    doubts = table_doubts(found.table, reading) if found.table is not None else ()
    lines = [*said, *doubts, f"model: {model.said}", *found.remarks]
    return Proposal(recipe, study_toml(recipe_file, model.change, decides=decides), tuple(lines))


def _rows(
    found: SourceContents, table: TableSample, reading: Reading, group: str | None
) -> tuple[list[RecipeSetting], ModelChoice, list[str]]:
    """The splits, the model and what to say of a task's rows."""
    if table.rows < MIN_ROWS:
        raise UserError(
            f"{table.rows} rows are too few to train and test on",
            topic="data",
            where=str(table.path),
            hint="Give more; some hundreds at least.",
        )
    lengths = measure(table, reading)
    model = choose_model(reading, lengths)
    said = [
        table_line(found.tables),
        f"task: {reading.describe()}",
        text_line(table, reading),
        label_line(table, reading),
    ]
    if others := columns_left_out(table, reading, group, found.split_column):
        said.append(others)
    settings, sizes = drawn_splits(found, table, reading, group)
    if sizes is not None and settings:
        drawn = join_words(f"{one.key} = {one.value:g}" for one in settings)
        if reading.task in JUDGED_BY_ACCURACY:
            said.append(f"splits: {drawn}: {sizes.describe()}")
        else:
            said.append(f"splits: {drawn}: about {sizes.held_out:,} {sizes.unit} each")
    else:
        said += given_splits(found, reading)
    if copied := copied_rows(found.tables, reading):
        settings.append(
            RecipeSetting("drop_overlap", True, "leave out of training what dev or test hold too")
        )
        said.append(copied)
    if group is not None:
        values = profile_column(group, table.columns[group]).distinct
        said.append(f"group: {group!r}, {values:,} values, each kept in one split")
    return settings, model, said


def _texts(
    found: SourceContents, reading: Reading, overrides: Overrides
) -> tuple[list[RecipeSetting], ModelChoice, list[str]]:
    sources, column = found.files.splits["train"], reading.columns["text"]
    preview = preview_corpus(
        sources,
        column=column,
        unit=document_unit(found, overrides) or "line",
        header=found.table is None or found.table.header,
    )
    where = ", ".join(sources) + (f", column {column!r}" if found.table is not None else "")
    model = choose_language_model(preview, where=where)
    fraction = propose_document_fraction(len(preview.document_words))
    settings = (
        column_splits(found)
        if found.split_column is not None
        else fractions(missing_splits(found), fraction)
    )
    held_out = round(fraction * len(preview.document_words))
    written = f", {found.table.describe()}" if found.table is not None else ""
    said = [f"{', '.join(map(_short, sources))}: {preview.describe()}{written}"]
    said.append(f"task: {reading.describe() if found.table is not None else 'language model'}")
    if found.table is not None and (
        others := columns_left_out(found.table, reading, None, found.split_column)
    ):
        said.append(others)
    if found.split_column is not None:
        said += given_splits(found, reading)
    elif settings:
        drawn = join_words(f"{one.key} = {one.value:g}" for one in settings)
        said.append(f"splits: {drawn}: about {held_out:,} documents each")
    if found.table is None:
        said += _other_layouts(Path(sources[0]), found)
    return settings, model, said


def _other_layouts(first: Path, found: SourceContents) -> Iterator[str]:
    """What plain text may be besides, and how to say so."""
    if labels := folders_like_labels(found.files.paths.get("train", ())):
        shown = join_words(labels[:4]) + (", …" if len(labels) > 4 else "")
        yield f"the files lie in folders: if {shown} are labels, write a table of text and label"
    if not first.is_file():
        return
    if looks_tagged(first):
        yield f"{first.name} looks like words with tags: to tag, rename it to .conll"
    elif looks_like_a_table(first):
        yield f"{first.name} has tabs in every line: if it is a table, rename it to .tsv"
    elif begins_with_labels(first):
        yield (
            f"{first.name} begins each line with __label__: to classify, write a table of text "
            "and label"
        )


def _parallel(found: SourceContents) -> tuple[list[RecipeSetting], ModelChoice, list[str]]:
    [reading] = found.readings
    sources = found.files.splits["train"]
    data = Data(corpus=sources)
    rows = open_corpus(data, dict(reading.columns), types={"target": "text"}).all_records()
    sides = [[row[role] for row in rows] for role in ("source", "target")]
    lengths = measure_texts([sides[0]], [sides[1]], rows=len(rows))
    settings = fractions(missing_splits(found), propose_document_fraction(len(rows)))
    names_said = [f"{split} {_short(given[0])}" for split, given in found.files.splits.items()]
    said = [
        f"{', '.join(names_said)}: {len(rows):,} lines for training, aligned line by line",
        f"task: {reading.describe()}; for the other direction give --text and --label",
    ]
    return settings, choose_model(reading, lengths), said


def _task(reading: Reading) -> list[RecipeSetting]:
    whys = {"label": "what is predicted", "score": "what is predicted"}
    defaults = TASKS.get(reading.task).part().model_dump()
    settings = [RecipeSetting("kind", reading.task)]
    settings += [
        RecipeSetting(role, name, whys.get(role, "")) for role, name in reading.columns.items()
    ]
    settings += [
        RecipeSetting(role, name)
        for role, name in reading.optional.items()
        if defaults[role] != name
    ]
    settings += [
        RecipeSetting(key, value, "the range of the scores")
        for key, value in reading.settings.items()
        if defaults[key] != value
    ]
    return settings


def _short(source: str) -> str:
    return Path(source).name or source
