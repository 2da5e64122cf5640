"""What a finished run gets right: its scores again, and the items it gets wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from regard.api.arguments import as_path
from regard.api.models import audit, load
from regard.api.observers import observed_training
from regard.core.errors import UserError
from regard.core.settings import catalog_name, to_table
from regard.data.splits import SPLITS
from regard.models.families import FAMILIES
from regard.runs.locking.lock import lock_run_for_evaluation
from regard.runs.models.base_model import weights_fingerprint
from regard.runs.models.loaded_model import LoadedModel
from regard.runs.observer import Observer
from regard.runs.preparation.prepare import prepare
from regard.runs.preparation.prepared import PreparedData
from regard.runs.preparation.task import PreparedTask
from regard.runs.recipe import Recipe
from regard.runs.results import AuditRecord, EvaluationRecord, ResultsRecord
from regard.runs.run import Run
from regard.tasks import TASKS

if TYPE_CHECKING:
    from regard.runs.archive.item_errors import ItemErrors


def evaluate(
    run: str | PathLike[str],
    *,
    data: str | PathLike[str] | None = None,
    set: Mapping[str, Any] | None = None,
    base: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    observer: Observer | None = None,
) -> EvaluationRecord:
    """Evaluate a finished run again, from its recipe: estimates, baselines and remarks.

    Where its files moved, `data` is the new path of data.corpus, and `set` changes other settings
    of its data, such as {"data.test": "new/test.csv"}; other documents than before are refused.
    An imported model that came with the head of a task has no recipe: it is audited and evaluated
    on `data`, of which `set` may name the columns, {"task.label": "stars"}.
    """
    run_folder = Run(as_path(run, "run"))
    loaded = load(run, base=base, user_files=user_files)
    if not run_folder.recipe_file.is_file():
        recipe = _recipe_of_model(loaded, data, set or {})
        with observed_training(observer) as on_evaluation:
            return _evaluate(run_folder, recipe, loaded, on_evaluation)
    recipe = run_folder.recipe(changes=_data_changes(data, set or {}))
    with lock_run_for_evaluation(run_folder.folder), observed_training(observer) as on_evaluation:
        return _evaluate(run_folder, recipe, loaded, on_evaluation)


def errors(
    run: str | PathLike[str],
    other: str | PathLike[str] | None = None,
    *,
    split: str = "dev",
) -> ItemErrors:
    """Every evaluated item of a split with the run's prediction: `.worst(10)`, `.confusion`.

    With `other`, a run on the same items: `.differing(10)`, `.agreement` and McNemar's `.p`.
    """
    from regard.runs.archive.item_errors import read_errors

    if split not in SPLITS:
        raise UserError(
            f"there is no split {split!r}", topic="errors", hint=f"Give one of {', '.join(SPLITS)}."
        )
    runs = [as_path(run, "run"), *([] if other is None else [as_path(other, "other")])]
    return read_errors(runs, split=split)


def _data_changes(
    data: str | PathLike[str] | None, changes: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The changed settings of a run's data, by dotted key."""
    for key in changes:
        if not key.startswith("data."):
            raise UserError(
                f"{key} cannot be changed: an evaluation has the settings of its run",
                topic="evaluate",
                hint="Only where its files are may differ: data.corpus, data.dev, data.test.",
            )
    return {**changes, **({} if data is None else {"data.corpus": str(as_path(data, "data"))})}


def _recipe_of_model(
    loaded: LoadedModel, data: str | PathLike[str] | None, changes: Mapping[str, Any]
) -> Recipe:
    """The recipe of an evaluation of a model that regard did not train."""
    if data is None or loaded.task is None:
        raise UserError(
            f"{loaded.folder} is a model without its recipe, so its corpus is unknown",
            topic="run",
            hint="Give the run folder it belongs to, such as runs/mini-gpt."
            if loaded.task is None
            else "Give the file with its labelled rows: --data FILE.",
        )
    for key in changes:
        if not key.startswith(("data.", "task.", "evaluate.")):
            raise UserError(
                f"{key} cannot be changed: the model is as it is",
                topic="evaluate",
                hint="Change settings of data, task or evaluate.",
            )
    table = {
        "name": "imported",
        "data": {"corpus": str(as_path(data, "data"))},
        "model": {"family": catalog_name(loaded.saved.family, FAMILIES)},
        "task": {"kind": catalog_name(loaded.task, TASKS), **to_table(loaded.task)},
    }
    recipe = Recipe.from_dictionary(table, changes=changes)
    return recipe.model_copy(update={"model": loaded.saved.family})


def _evaluate(
    run: Run, recipe: Recipe, loaded: LoadedModel, observer: Observer
) -> EvaluationRecord:
    prepared = prepare(
        recipe,
        tokenizer=loaded.tokenizer,
        task_state=loaded.problem.state() if loaded.problem else None,
        observer=observer,
    )
    if run.recipe_file.is_file():
        results = run.results()
        _check_same_text(run, results, prepared)
        if isinstance(prepared, PreparedTask) and loaded.problem is not None:
            prepared.problem = loaded.problem  # keeps the thresholds chosen on dev
        audited, health, remarks = results.audit, results.health, results.remarks
    else:
        audited, health, remarks = AuditRecord.of_audit(audit(loaded)), None, ()
    evaluated = prepared.evaluate(loaded.model, device="cpu", observer=observer)
    return EvaluationRecord(
        run=str(run.folder),
        weights=weights_fingerprint(loaded.folder),
        estimates=evaluated.estimates,
        comparisons=evaluated.comparisons,
        contamination=evaluated.contamination,
        data_flaws=prepared.data_flaws,
        audit=audited,
        health=health,
        remarks=(*remarks, *evaluated.remarks) if not run.recipe_file.is_file() else remarks,
    )


def _check_same_text(run: Run, results: ResultsRecord, prepared: PreparedData) -> None:
    splits = results.corpus.splits if results.corpus else {}
    for name, split in prepared.statistics.splits.items():
        before, now = splits[name].fingerprint, split.fingerprint
        if before != now:
            raise UserError(
                f"the text of {run.folder} has changed: its {name} split was {before[:8]}… and "
                f"is {now[:8]}… now, so scores would be of other documents",
                topic="run",
                hint="Put the old text back, or train on the new.",
            )
