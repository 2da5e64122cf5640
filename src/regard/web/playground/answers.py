"""What a task's model answers, in a worker: one row that was typed, or one of dev."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.evaluation.metrics.metric import Row
from regard.models.task_models.sentence_model import ContrastiveModel
from regard.runs.items import read_items
from regard.runs.models.loaded_model import LoadedModel
from regard.runs.training_audit import invalid_reasons
from regard.tasks import Problem, Task
from regard.tasks.classification.labels import LabelProblem
from regard.tasks.qa.recall import RecallProblem
from regard.tasks.retrieval.collection import Collection
from regard.tasks.retrieval.retrieval import RetrievalProblem, SearchIndex
from regard.web.playground.models import Key, names_file

MAX_SHOWN_TEXT = 600
"Characters of a found document."
MAX_LABELS = 20
SHOWN_FIELDS = (
    *("predicted", "confidence", "truth", "truths", "loss", "start", "best", "best_score"),
    *("null_score", "probability", "probability_per_token", "agreement", "answered", "answerable"),
)
"Of a result row."


class Indexes:
    """The embedded collection of the retrieval model that answered last."""

    def __init__(self) -> None:
        self._key: Key | None = None
        self._index: SearchIndex | None = None

    def get(self, key: Key, loaded: LoadedModel, run: Path) -> SearchIndex:
        if self._index is None or self._key != key:
            problem, model = loaded.problem, cast(ContrastiveModel, loaded.model)
            assert isinstance(problem, RetrievalProblem)
            collection = problem.task.documents or _documents_of_dev(run)
            self._index = problem.build_index(model, collection)
            self._key = key
        return self._index


_indexes = Indexes()


def answer_row(
    key: Key, loaded: LoadedModel, run: Path, *, fields: Mapping[str, str], item: int | None
) -> dict[str, Any]:
    """The answer to a row of these fields, or to an item of dev, with its truth."""
    task, problem = loaded.task, loaded.problem
    if task is None or problem is None:
        raise UserError(f"{run.name} has no task, so it answers nothing", topic="playground")
    stored = None if item is None else _dev_item(run, item)
    record = Record(_typed(task, fields) if stored is None else stored["record"])
    row = _answer(key, loaded, run, record)
    found = {name: row[name] for name in SHOWN_FIELDS if name in row}
    if stored is not None and ("truth" in row or "truths" in row):
        found["is_correct"] = problem.metric.is_correct(row)
    return {
        **found,
        "item": item,
        "fields": {role: _as_typed(record[role]) for role in task.input_columns()},
        "probabilities": _probabilities(loaded, problem, record),
        "found": _found(key, loaded, run, row),
        "threshold": _threshold(problem),
        "reliability": _reliability(problem, row),
        "invalid": list(invalid_reasons(loaded.folder)),
    }


def _answer(key: Key, loaded: LoadedModel, run: Path, record: Record) -> Row:
    problem = loaded.problem
    if isinstance(problem, RetrievalProblem):
        index = _indexes.get(key, loaded, run)
        [row] = problem.answer_from(index, loaded.model, [record])  # type: ignore[arg-type]
    elif isinstance(problem, RecallProblem) and names_file(problem.task.seen_in):
        # Whether the pretraining text names the subject is in a file, which the page opens not.
        [row] = problem.predict(loaded.model.body, [record])
    else:
        assert problem is not None
        [row] = problem.answer(loaded.model, [record])
    return dict(row)


def _typed(task: Task, fields: Mapping[str, str]) -> dict[str, Any]:
    """A row of what was typed; a column of values, as of an image, cannot be."""
    types = task.column_types()
    row = {}
    for role in task.input_columns():
        if types.get(role, "text") == "value":
            raise UserError(f"{role} is no text: choose a row of dev", topic="playground")
        text = fields.get(role, "")
        if not text.strip():
            raise UserError(f"give a {role}", topic="playground")
        row[role] = text
    return row


def _as_typed(value: Any) -> str | None:
    """A field as a person would type it; None for what is no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return " ".join(value)
    return None


def _dev_item(run: Path, item: int) -> Row:
    rows = read_items(run, "dev")
    if item >= len(rows):
        raise UserError(f"dev has no row {item}: it has {len(rows):,}", topic="playground")
    return rows[item]


def _documents_of_dev(run: Path) -> Collection:
    """Without a collection of its own, what the rows of dev name is searched."""
    named = (row["record"].get("document", ()) for row in read_items(run, "dev"))
    texts = (text for one in named for text in ([one] if isinstance(one, str) else one))
    return Collection.from_texts(str(text) for text in texts)


def _probabilities(
    loaded: LoadedModel, problem: Problem[Any], record: Record
) -> list[dict[str, Any]]:
    """Of each label, the most probable first."""
    if not isinstance(problem, LabelProblem):
        return []
    [logprobs] = problem.logprobs(loaded.model, [record])
    order = np.argsort(-np.asarray(logprobs), kind="stable")[:MAX_LABELS]
    return [{"label": problem.labels[n], "p": float(np.exp(logprobs[n]))} for n in order]


def _found(key: Key, loaded: LoadedModel, run: Path, row: Row) -> list[dict[str, Any]]:
    """The documents that were found, with their texts."""
    if "found" not in row:
        return []
    collection = _indexes.get(key, loaded, run).collection
    relevant = set(row.get("truth", ()))
    return [
        {
            "document": one["document"],
            "text": collection.texts[collection.index_by_id[one["document"]]][:MAX_SHOWN_TEXT],
            "cosine": one["cosine"],
            "is_relevant": one["document"] in relevant if "truth" in row else None,
        }
        for one in row["found"]
    ]


def _threshold(problem: Problem[Any]) -> float | None:
    """The one that was chosen when the run was trained."""
    abstention = getattr(problem, "abstention", None)
    return None if abstention is None else float(abstention.threshold)


def _reliability(problem: Problem[Any], row: Row) -> dict[str, Any] | None:
    """How often answers on dev with a similar confidence were right."""
    abstention = getattr(problem, "abstention", None)
    found = None if abstention is None else abstention.reliability(row["confidence"])
    return None if found is None else dict(vars(found))
