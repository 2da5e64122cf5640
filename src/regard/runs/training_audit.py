"""The audit before a training: a model that sees what it must not see is not trained.

Kinds that are broken on purpose are refused too, unless the recipe says `on_purpose = true`; then
the training goes on, and everything that tells of it begins with what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from regard.attention.kinds import ATTENTION, BrokenKind
from regard.attention.masks.mask import bidirectional, causal, same_document
from regard.audits.audit import Audit, audit
from regard.audits.unused_parameters import BATCH_SIZE, DATA_SEEDS, LossFunction
from regard.batch import Batch
from regard.core.errors import UserError
from regard.core.files import read_json, write_json
from regard.core.settings import catalog_name
from regard.models.architectures.sequence_model import SequenceModel, audit_document_ids
from regard.models.families import Family
from regard.models.model import Model
from regard.models.task_models.task_model import TaskModel
from regard.runs.run import AUDIT_SCHEMA, Run
from regard.training.batch_loader import BatchLoader

FEWEST_ROWS = 2
"That a loss is asked on: one which tells rows from each other has nothing to tell of one alone."
MOST_PLACES = 256
"Of such rows together, as the gradients are found in float64."


def audit_before_training(model: Model, family: Family, stream: BatchLoader) -> dict[str, Any]:
    """The audit as it is recorded with the run; an error where the training must not begin."""
    seen = _audit_as_trained(model, stream)
    broken = broken_kinds(family)
    for kind in broken:
        if not kind.on_purpose:
            raise UserError(
                f"attention {catalog_name(kind, ATTENTION)} is broken: {kind.traits.broken}. "
                f"The audit: {seen.sentence()}",
                topic="audit",
                hint="Choose another kind; to study what it does, add on_purpose = true to its "
                "table, and the report will say so.",
            )
    if seen.verdict == "leak" and not broken:
        raise UserError(
            f"the model {seen.sentence()}; what it would learn means nothing",
            topic="audit",
            hint="Mend the attention kind or mask: `regard check FILE` says what is wrong with a "
            "kind of your own.",
        )
    reasons = [f"{catalog_name(kind, ATTENTION)}: {kind.traits.broken}" for kind in broken]
    return {**seen.as_dict(), "broken": reasons}


def _audit_as_trained(model: Model, stream: BatchLoader) -> Audit:
    """Rows of one text; where documents of a row are kept apart, also rows of several. Under the
    head of a task, what can learn is asked by its loss on rows of the training."""
    loss_fn = _loss_on(_few_rows(stream)) if isinstance(model, TaskModel) else None
    whole = audit(model, mask=model.visibility, loss_fn=loss_fn)
    if not isinstance(model, SequenceModel) or model.across_documents or whole.verdict != "clean":
        return whole
    apart = audit(model.packed_audit_subject(), mask=_kept_apart(model.visibility))
    if apart.verdict != "clean":
        return apart
    named = tuple(f"documents kept apart: {check}" for check in apart.checked)
    return replace(whole, checked=whole.checked + named, seconds=whole.seconds + apart.seconds)


def _few_rows(stream: BatchLoader) -> list[Batch]:
    """Small batches of the first epoch, other rows in each."""
    first = np.concatenate(stream.plan(0))[: BATCH_SIZE * len(DATA_SEEDS)]
    fit = MOST_PLACES // int(stream.examples.lengths[first].max())
    rows = first[: max(FEWEST_ROWS, min(BATCH_SIZE, fit)) * len(DATA_SEEDS)]
    parts = np.array_split(rows, min(len(DATA_SEEDS), len(rows)))
    return [stream.build_batch(part, epoch=0) for part in parts]


def _loss_on(batches: Sequence[Batch]) -> LossFunction:
    def loss(module: nn.Module, seed: int) -> Tensor:
        device = next(module.parameters()).device
        terms = module(batches[seed % len(batches)].to(device)).values()
        total: Tensor = sum(term.sum / term.weight for term in terms)
        return total

    return loss


def _kept_apart(sees: str) -> Callable[[int], Tensor]:
    """What a place may see of a row of several documents, for rows of t places: (t,t)."""

    def allowed(places: int) -> Tensor:
        mask = causal() if sees == "causal" else bidirectional()
        table = (mask & same_document(audit_document_ids(places)[None])).dense(places, places)
        return table[0, 0]

    return allowed


def recorded_audit(run: Run) -> dict[str, Any] | None:
    """What the audit said when the run began."""
    return read_json(run.audit_file, schema=AUDIT_SCHEMA) if run.audit_file.is_file() else None


def reasons_against(model_folder: Path) -> tuple[str, ...]:
    """Why what a model tells means nothing, by the audit of the run that it belongs to."""
    for place in (model_folder, *model_folder.resolve().parents[:2]):
        seen = recorded_audit(Run(place))
        if seen is not None:
            leak = (f"the model {seen['sentence']}",) if seen["verdict"] == "leak" else ()
            return (*leak, *seen["broken"])
    return ()


def record_audit(run: Run, seen: dict[str, Any]) -> None:
    write_json(run.audit_file, {"schema": AUDIT_SCHEMA, **seen})


def summary_of(seen: dict[str, Any]) -> dict[str, Any]:
    """What a reader has to know of an audit."""
    keys = ("verdict", "sentence", "broken", "mask", "leak_count", "findings", "unused_parameters")
    return {key: seen[key] for key in (*keys, "checked", "unchecked", "seconds")}


def broken_kinds(family: Family) -> list[BrokenKind]:
    """The kinds of attention in a family that declare themselves broken."""
    values = (getattr(family, name) for name in type(family).model_fields)
    return [value for value in values if isinstance(value, BrokenKind)]
