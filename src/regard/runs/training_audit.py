"""The audit before training: a model that sees what its mask forbids is not trained.

Attention kinds that are broken by design are refused too, unless the recipe says
`on_purpose = true`; then training goes on, and every report starts with what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from regard.attention.kinds import ATTENTION, BrokenKind
from regard.attention.masks.mask import bidirectional, causal, same_document
from regard.audits.audit import Audit, audit
from regard.audits.leaks.permission import MaskFunction
from regard.audits.subject import Subject
from regard.audits.unused_parameters import BATCH_SIZE, DATA_SEEDS, LossFunction
from regard.batch import Batch
from regard.core.errors import UserError
from regard.core.settings import catalog_name
from regard.models.families import Family
from regard.models.model import Model
from regard.runs.models.model_subject import document_ids, model_subject, packed_subject
from regard.runs.results import AuditRecord, read_audit
from regard.runs.run import Run
from regard.training.batch_loader import BatchLoader

MIN_ROWS = 2
"Rows of a batch: a contrastive loss is 0 on a single row."
MAX_POSITIONS = 256
"Positions of a batch: gradients are computed in float64."


def audit_before_training(model: Model, family: Family, loader: BatchLoader) -> AuditRecord:
    """The audit as it is saved with the run; an error if training must not start."""
    audit_result = _audit_as_trained(model, loader)
    broken = broken_kinds(family)
    for kind in broken:
        if not kind.on_purpose:
            raise UserError(
                f"attention {catalog_name(kind, ATTENTION)} is broken: {kind.traits.broken}. "
                f"The audit: {audit_result.sentence()}",
                topic="audit",
                hint="Choose another kind; to study what it does, add on_purpose = true to its "
                "table, and the report will say so.",
            )
    if audit_result.verdict == "leak" and not broken:
        raise UserError(
            f"the model {audit_result.sentence()}; what it would learn means nothing",
            topic="audit",
            hint="Fix the attention kind or the mask: `regard check FILE` says what is wrong with "
            "a kind of your own.",
        )
    if audit_result.verdict == "batch coupling" and not broken:
        raise UserError(
            f"{audit_result.sentence()}; its scores would be those of a batch, not of a row",
            topic="audit",
            hint="Compute each row by itself; to study the coupling, declare the kind broken and "
            "add on_purpose = true to its table.",
        )
    reasons = [f"{catalog_name(kind, ATTENTION)}: {kind.traits.broken}" for kind in broken]
    return AuditRecord.of_audit(audit_result, broken=reasons)


def _audit_as_trained(model: Model, loader: BatchLoader) -> Audit:
    """Audit rows of one text and, if packed documents are kept apart, rows of several. With a task
    head, unused parameters are found by its loss on training rows."""
    loss_fn = _loss_on(_small_batches(loader)) if model.task_head is not None else None
    (subject, mask), *kept_apart = subjects_as_trained(model, loader)
    whole = audit(subject, mask=mask, loss_fn=loss_fn)
    if not kept_apart or whole.verdict != "clean":
        return whole
    subject, mask = kept_apart[0]
    packed = audit(replace(subject, text=None), mask=mask)
    if packed.verdict != "clean":
        return packed
    checked = tuple(f"documents kept apart: {check}" for check in packed.checked)
    return replace(whole, checked=whole.checked + checked, seconds=whole.seconds + packed.seconds)


def subjects_as_trained(
    model: Model, loader: BatchLoader
) -> list[tuple[Subject, str | MaskFunction]]:
    """What a training audits, each with its mask: rows of one text and, where packed documents are
    kept apart, rows of several."""
    text = _training_text(loader)
    subjects: list[tuple[Subject, str | MaskFunction]] = [
        (replace(model_subject(model), text=text), model.visibility)
    ]
    if model.task_head is None and model.body.keeps_documents_apart:
        packed = replace(packed_subject(model.body), text=text)
        subjects.append((packed, _packed_mask(model.visibility)))
    return subjects


def _training_text(loader: BatchLoader) -> Tensor:
    """(t,): the ids of the first rows, with the special ids that stand in them."""
    rows = np.concatenate(loader.plan(0))[:MIN_ROWS]
    batch = loader.build_batch(rows, epoch=0)
    return batch.ids[batch.valid][:MAX_POSITIONS]


def _small_batches(loader: BatchLoader) -> list[Batch]:
    """Small batches of the first epoch, with different rows."""
    first = np.concatenate(loader.plan(0))[: BATCH_SIZE * len(DATA_SEEDS)]
    fitting = MAX_POSITIONS // int(loader.examples.lengths[first].max())
    rows = first[: max(MIN_ROWS, min(BATCH_SIZE, fitting)) * len(DATA_SEEDS)]
    batches = np.array_split(rows, min(len(DATA_SEEDS), len(rows)))
    return [loader.build_batch(batch, epoch=0) for batch in batches]


def _loss_on(batches: Sequence[Batch]) -> LossFunction:
    def loss(module: nn.Module, seed: int) -> Tensor:
        device = next(module.parameters()).device
        terms = module(batches[seed % len(batches)].to(device)).values()
        total: Tensor = sum(term.sum / term.weight for term in terms)
        return total

    return loss


def _packed_mask(visibility: str) -> MaskFunction:
    """The mask of a row of several documents, (t,t) for length t; True = may attend."""

    def allowed(length: int) -> Tensor:
        mask = causal() if visibility == "causal" else bidirectional()
        table = (mask & same_document(document_ids(length)[None])).dense(length, length)
        return table[0, 0]

    return allowed


def invalid_reasons(model_folder: Path) -> tuple[str, ...]:
    """Why a model's predictions mean nothing, by the audit of its run; empty if they do."""
    for folder in (model_folder, *model_folder.resolve().parents[:2]):
        saved = read_audit(Run(folder).audit_file)
        if saved is not None:
            return saved.reasons
    return ()


def broken_kinds(family: Family) -> list[BrokenKind]:
    """The attention kinds of a family that declare themselves broken."""
    values = (getattr(family, name) for name in type(family).model_fields)
    return [value for value in values if isinstance(value, BrokenKind)]
