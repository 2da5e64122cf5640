"""Predictions of a task's model: for the rows of a file, of a data frame, or of a list.

"a text"    ("a passage", "a question")    {"passage": "…", "question": "…"}    a row of a list
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.data.corpus import Data, columns_by_role, open_corpus
from regard.data.readers.formats import read_records
from regard.data.readers.frames import frame_rows, is_frame, read_rows
from regard.data.readers.records import SKIP_HINT, DropCounts, ReadOptions, Record, RecordReader
from regard.tasks import Problem, Task
from regard.tasks.classification.labels import LabelProblem

if TYPE_CHECKING:
    from regard.runs.models.loaded_model import LoadedModel

ROWS = "rows"
"What errors call rows that come from no file."


@dataclass(frozen=True)
class PredictionRows:
    """The rows that can be answered, and all rows with all of their columns."""

    answerable: Sequence[Record]
    every: Sequence[Mapping[str, Any]]
    locations: Sequence[str]
    "Of every row; equal to `at` of its record."


def predict(
    loaded: LoadedModel,
    rows: Any,
    *,
    header: bool = True,
    on_progress: OnProgress = no_progress,
) -> list[dict[str, Any]]:
    """One prediction a row; None for a row without text."""
    task, problem = _task_of(loaded)
    read = _read(task, rows, header=header)
    answers = (
        problem.answer(loaded.model, read.answerable, on_progress=on_progress)
        if read.answerable
        else []
    )
    by_location = {row.at: answer for row, answer in zip(read.answerable, answers, strict=True)}
    return [
        {**by_location.get(at, {"predicted": None}), "item": number, "at": at, "record": row}
        for number, (at, row) in enumerate(zip(read.locations, read.every, strict=True))
    ]


def predict_probabilities(loaded: LoadedModel, rows: Any) -> NDArray[np.float64]:
    """(n,c): the probability of each label of the task; NaN for a row without text."""
    task, problem = _task_of(loaded)
    if not isinstance(problem, LabelProblem):
        raise UserError(
            f"{loaded.folder} predicts no labels, so it has no probabilities of them",
            topic="predict",
            hint="Take predict: its rows have a confidence.",
        )
    read = _read(task, rows, header=True)
    logprobs = problem.logprobs(loaded.model, read.answerable) if read.answerable else []
    by_location = dict(zip((row.at for row in read.answerable), logprobs, strict=True))
    unknown = np.full(len(problem.labels), np.nan)
    found = [by_location.get(at, unknown) for at in read.locations]
    return np.exp(np.array(found, dtype=np.float64).reshape(-1, len(problem.labels)))


def _task_of(loaded: LoadedModel) -> tuple[Task, Problem[Any]]:
    if loaded.task is None or loaded.problem is None:
        raise UserError(
            f"{loaded.folder} was trained on texts and has no task, so it predicts nothing",
            topic="predict",
            hint="Generate text with `regard generate`, or train a recipe with a [task].",
        )
    return loaded.task, loaded.problem


def _read(task: Task, rows: Any, *, header: bool) -> PredictionRows:
    if isinstance(rows, str | PathLike):
        return _read_file(task, Path(rows), header=header)
    if isinstance(rows, Mapping) or not (is_frame(rows) or isinstance(rows, Iterable)):
        raise UserError(
            f"the rows are of type {type(rows).__name__}",
            topic="predict",
            hint="Give a list of texts or of dictionaries, a data frame, or a file.",
        )
    if is_frame(rows):
        every: list[Mapping[str, Any]] = [*frame_rows(rows)]
    else:
        every = [_as_dictionary(task, row, number) for number, row in enumerate(rows, start=1)]
    options = ReadOptions(
        columns=columns_by_role(
            task.columns(),
            types=task.column_types(),
            optional=_optional(task),
            settings=task.column_settings(),
        )
    )
    records = list(read_rows(every, RecordReader(ROWS, options, DropCounts())))
    locations = [f"{ROWS}, row {number:,}" for number in range(1, len(every) + 1)]
    return PredictionRows(records, every, locations)


def _as_dictionary(task: Task, row: Any, number: int) -> Mapping[str, Any]:
    """A row by column name; texts are the task's inputs, in the order of its settings."""
    if isinstance(row, Mapping):
        return row
    names = [task.columns()[role] for role in task.input_columns()]
    texts = [row] if isinstance(row, str) else list(row) if isinstance(row, tuple | list) else []
    if len(texts) != len(names):
        single = len(names) == 1
        raise UserError(
            f"row {number:,} is {_shown(row)}, and this task reads {', '.join(names)}",
            topic="predict",
            hint=f"Give {'a text' if single else f'a tuple of {len(names)} texts'} for each row, "
            f"or a dictionary with {'this key' if single else 'these keys'}.",
        )
    return dict(zip(names, texts, strict=True))


def _shown(row: Any) -> str:
    if isinstance(row, str):
        return "one text"
    if isinstance(row, tuple | list):
        return f"a {type(row).__name__} of {len(row)}"
    return f"of type {type(row).__name__}"


def _read_file(task: Task, file: Path, *, header: bool) -> PredictionRows:
    corpus = open_corpus(
        Data(corpus=str(file), header=header),
        task.columns(),
        types=task.column_types(),
        optional=_optional(task),
        settings=task.column_settings(),
    )
    with _advice_for_files():
        rows = corpus.all_records()
    # A built-in corpus has no other columns than those of the task.
    options = ReadOptions(columns=None, header=header)
    every = list(read_records(file, options, DropCounts())) if file.is_file() else rows
    return PredictionRows(rows, every, [row.at for row in every])


@contextmanager
def _advice_for_files() -> Iterator[None]:
    """Settings that a reader proposes are those of the training, which are fixed."""
    try:
        yield
    except UserError as problem:
        if "data." not in problem.hint and "task." not in problem.hint:
            raise
        hint = "Columns are called as in the training; without a header line give --no-header."
        if problem.hint.startswith(SKIP_HINT):
            cure = problem.hint.removeprefix(SKIP_HINT).removeprefix(", or ").rstrip(".")
            hint = f"{cure[:1].upper()}{cure[1:]}." if cure else "Correct it."
        raise UserError(problem.what, topic=problem.topic, where=problem.where, hint=hint) from None


def _optional(task: Task) -> list[str]:
    """Rows to answer need the inputs alone."""
    inputs = task.input_columns()
    return [role for role in task.columns() if role not in inputs]
