"""What data lets a model get right without learning, or wrong whatever it learns.

Labels that contradict each other or are spelled in two ways, a label that stands in the row, pairs
of training with their sides swapped, an author, document or source in
several splits, and one with several held-out rows that were not declared a group. Each is one
sentence, with what cures it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from regard.data.corpus import SPLITS, Corpus, Split
from regard.data.overlap.labels import (
    MAX_LABELS,
    Giveaway,
    conflicting_labels,
    label_giveaways,
    respelled_labels,
    swapped_pairs,
)
from regard.data.overlap.normalise import normalise
from regard.data.overlap.similarity import MIN_WORDS
from regard.data.overlap.straddling import (
    StraddlingColumn,
    likely_group_columns,
    straddling_columns,
)
from regard.data.readers.encoding import ENCODING_NAMES, detect_encoding
from regard.data.readers.formats import file_format
from regard.data.readers.records import DropCounts
from regard.data.record_corpus import Record
from regard.data.sources import FileSource
from regard.data.statistics import SplitOverlap
from regard.evaluation.formatting import join_words, quantity
from regard.tasks import Task

MAX_ROWS = 100_000
"Rows in which columns are compared."
MAX_COPIED_TARGETS = 0.05
"Fraction of the rows whose input and target may be the same text before it is said."


def row_flaws(task: Task, records: Mapping[Split, Sequence[Record]], corpus: Corpus) -> list[str]:
    """Of the rows of a task."""
    rows = [record for split in SPLITS for record in records[split]]
    labels = [task.target_text(row) for row in rows]
    is_classifier = "label" in task.column_types().values()
    flaws = list(_old_encodings(corpus))
    if len(set(labels)) <= MAX_LABELS and None not in labels:
        flaws += _conflicts(task, rows, labels)
        if is_classifier:
            flaws += _respelled_labels(labels)
        trained = records["train"]
        texts = {
            role: [row[role] for row in trained]
            for role in task.input_columns()
            if all(isinstance(row.get(role), str) for row in trained)
        }
        found = label_giveaways(texts, [task.target_text(row) for row in trained])
        flaws += [_giveaway(one, task) for one in found]
    if task.writes_target:
        flaws += target_flaws(task, records)
    if is_classifier and len(task.input_columns()) == 2:
        flaws += _swapped_pairs(task, records)
    streamed = ((split, row, task.target_text(row)) for split in SPLITS for row in records[split])
    columns, inputs = task.columns(), task.input_columns()
    # One of several inputs may be shared by many rows, as a passage or a premise is.
    shared = inputs if len(inputs) > 1 else ()
    read = {column for role, column in columns.items() if role not in shared}
    return flaws + _group_columns(
        corpus,
        islice(streamed, MAX_ROWS),
        read=read,
        inputs=[columns[role] for role in shared],
        is_grouped=any(task.group_of(row) is not None for row in rows),
    )


def text_flaws(corpus: Corpus) -> list[str]:
    """Of a corpus of texts."""
    streamed = ((split, record, None) for split, record in corpus.stream())
    read = {corpus.data.text}
    is_grouped = corpus.data.group is not None
    return [
        *_old_encodings(corpus),
        *_group_columns(
            corpus, islice(streamed, MAX_ROWS), read=read, inputs=(), is_grouped=is_grouped
        ),
    ]


def _old_encodings(corpus: Corpus) -> Iterator[str]:
    """Encodings that are only likely: that of the bytes is not written in the file."""
    sources = chain.from_iterable(corpus.sources.values())
    files = chain.from_iterable(
        source.files for source in sources if isinstance(source, FileSource)
    )
    for file in files:
        if file_format(file) != "parquet" and detect_encoding(file) == "cp1252":
            yield (
                f"data: {file} is not UTF-8 and was read as {ENCODING_NAMES['cp1252']}: if letters "
                "with accents look wrong, save it as UTF-8"
            )


def _conflicts(task: Task, rows: Sequence[Record], labels: Sequence[str | None]) -> list[str]:
    conflicts = conflicting_labels([task.identity_text(row) for row in rows], labels)
    if not conflicts:
        return []
    of_them = sum(len(one.rows) for one in conflicts)
    first = rows[conflicts[0].rows[0]].at
    stand = "stands" if len(conflicts) == 1 else "stand"
    return [
        f"data: {quantity(len(conflicts), 'texts')} {stand} in {of_them:,} rows with more than one "
        f"label, first in {first}: no model is right on all of them; correct or remove these rows"
    ]


def _respelled_labels(labels: Sequence[str | None]) -> Iterator[str]:
    counts = Counter(str(label).strip() for label in labels)
    for spellings in respelled_labels(counts):
        named = join_words(f"{label!r} ({quantity(counts[label], 'rows')})" for label in spellings)
        yield (
            f"data: the labels {named} differ in spelling alone, and are {len(spellings)} classes: "
            "write them alike"
        )


def _swapped_pairs(task: Task, records: Mapping[Split, Sequence[Record]]) -> Iterator[str]:
    first, second = task.input_columns()

    def sides(split: Split) -> list[tuple[str, str]]:
        return [(row[first], row[second]) for row in records[split]]

    for split in SPLITS[1:]:
        found = swapped_pairs(sides(split), sides("train"))
        items = len(records[split])
        if not SplitOverlap(items=items, exact=len(found)).is_contaminated:
            continue
        same = sum(
            task.target_text(records[split][item]) == task.target_text(records["train"][row])
            for item, row in found.items()
        )
        yield (
            f"data: {len(found):,} of {items:,} in {split} stand in training with their two texts "
            f"swapped, {same:,} with the label they have there: if the order means nothing, leave "
            "them out of one of the two"
        )


def target_flaws(task: Task, records: Mapping[Split, Sequence[Record]]) -> Iterator[str]:
    """Of targets that are texts, which a model writes."""
    yield from _copied_targets(task, [record for split in SPLITS for record in records[split]])
    yield from _shared_targets(task, records)


def _copied_targets(task: Task, rows: Sequence[Record]) -> Iterator[str]:
    copied = sum(
        normalise(task.identity_text(row)) == normalise(task.target_text(row) or "") for row in rows
    )
    if copied > MAX_COPIED_TARGETS * len(rows):
        columns = task.columns()
        targets = join_words(columns[role] for role in task.target_roles)
        inputs = join_words(columns[role] for role in task.input_columns())
        yield (
            f"data: in {copied:,} of {len(rows):,} rows {inputs} and {targets} are the same text: "
            "a model that copies is right on them; set the task's columns, or remove these rows"
        )


def _shared_targets(task: Task, records: Mapping[Split, Sequence[Record]]) -> Iterator[str]:
    """Long targets of training that stand in dev or test under another input."""
    trained = {normalise(task.target_text(row) or "") for row in records["train"]}
    inputs = {normalise(task.identity_text(row)) for row in records["train"]}
    for split in SPLITS[1:]:
        shared = sum(
            target in trained
            and target.count(" ") + 1 >= MIN_WORDS
            and normalise(task.identity_text(row)) not in inputs
            for row in records[split]
            if (target := normalise(task.target_text(row) or ""))
        )
        items = len(records[split])
        if SplitOverlap(items=items, exact=shared).is_contaminated:
            yield (
                f"data: {shared:,} of {items:,} in {split} have a target that stands in training "
                "under another input, word for word: it can be learned by heart; leave such rows "
                "out of training"
            )


def _giveaway(giveaway: Giveaway, task: Task) -> str:
    column, setting = task.columns()[giveaway.name], f"task.{giveaway.name}"
    rate = f"right in {giveaway.accuracy:.1%} of {giveaway.rows:,} rows"
    if giveaway.kind == "column":
        return (
            f"data: the value of {column} alone decides the label, {rate}: nothing is learned from "
            f"the rest; set {setting} to another column"
        )
    words = [f"{word!r} is {label}" for label, word in giveaway.words.items()]
    which = "one of the labels" if giveaway.is_of_one_label else "the label"
    return (
        f"data: {which} stands in {column}: the {giveaway.kind} {join_words(words)}, {rate}; "
        f"remove it from the text, or set {setting} to another column"
    )


def _group_columns(
    corpus: Corpus,
    rows: Iterator[tuple[Split, Record, str | None]],
    *,
    read: set[str],
    inputs: Collection[str],
    is_grouped: bool,
) -> list[str]:
    """Columns that are not read as text or label, and say whose a row is: those whose values stand
    in several splits; else, where rows have no groups, the likeliest group of held-out rows."""
    sources = [
        source
        for source in chain.from_iterable(corpus.sources.values())
        if isinstance(source, FileSource) and not source.parallel_columns
    ]
    if not any(_has_other_columns(source, read) for source in sources):
        return []
    known = {row.at: (split, label) for split, row, label in rows}
    splits: list[str] = []
    labels: list[str | None] = []
    columns: dict[str, list[Any]] = {}
    for row in chain.from_iterable(map(_every_column, sources)):
        if row.at not in known:
            continue
        split, label = known[row.at]
        for name in set(row) - read - {corpus.data.group}:
            columns.setdefault(name, [None] * len(splits))
        for name, values in columns.items():
            values.append(row.get(name))
        splits.append(split)
        labels.append(label)
    known_labels = None if None in labels else labels
    searched = [name for name in inputs if name in columns]  # the declared group is not
    found = straddling_columns(columns, splits, known_labels, inputs=searched)
    if found or is_grouped:
        return [_straddling_sentence(one, corpus) for one in found]
    held_out = [index for index, split in enumerate(splits) if split != "train"]
    of_held_out = {name: [values[i] for i in held_out] for name, values in columns.items()}
    likely = likely_group_columns(of_held_out)[:1]
    return [_undeclared_sentence(name, of_held_out[name]) for name in likely]


def _undeclared_sentence(name: str, values: Sequence[Any]) -> str:
    known = [value for value in values if value is not None]
    return (
        f"data: {len(known):,} rows of dev and test have {len(set(map(str, known))):,} values of "
        f'column {name}: if rows of one {name} resemble each other, data.group = "{name}" lets '
        "intervals and verdicts vary over them"
    )


def _straddling_sentence(one: StraddlingColumn, corpus: Corpus) -> str:
    predicted = (
        f" and predict the label there ({one.accuracy:.3f}; most frequent label {one.majority:.3f})"
        if one.accuracy is not None
        else ""
    )
    data = corpus.data
    can_group = bool(data.fractions) or data.dev_from_test is not None
    cure = (
        f'data.group = "{one.column}" keeps each in one split'
        if can_group and data.group is None
        else f"give the splits different values of {one.column}"
    )
    return (
        f"data: {one.values:,} values of column {one.column} stand in training and in dev or test "
        f"({one.rows:,} of {one.held_out_rows:,} held-out rows){predicted}: {cure}"
    )


def _every_column(source: FileSource) -> Iterator[Record]:
    options = source.options._replace(columns=None)
    return replace(source, options=options).records(DropCounts())


def _has_other_columns(source: FileSource, read: set[str]) -> bool:
    return any(set(row) - read for row in islice(_every_column(source), 1))
