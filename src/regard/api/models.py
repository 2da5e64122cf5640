"""A trained model, loaded: its predictions, parameters, attention weights and audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from torch import Tensor

from regard.adapters.ledger import ledger as build_ledger
from regard.api.arguments import as_path, check_text, load_parts
from regard.attention.masks.expression import parse_mask
from regard.attention.masks.mask import Mask
from regard.audits.audit import Audit
from regard.audits.audit import audit as audit_model
from regard.audits.leaks.permission import Permission, build_permission
from regard.core.ledger import Ledger
from regard.core.progress import OnProgress, no_progress
from regard.interop.export_model import ExportReport
from regard.interop.import_model import ImportReport
from regard.interop.import_model import import_model as import_checkpoint
from regard.runs.inspection.inspect import inspect_model
from regard.runs.inspection.inspection import Inspection
from regard.runs.models.export import export_saved_model
from regard.runs.models.loaded_model import LoadedModel, load_model
from regard.runs.models.model_subject import auditable


def load(
    folder: str | PathLike[str],
    *,
    tokenizer: str | PathLike[str] | None = None,
    base: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> LoadedModel:
    """Load a model with its tokenizer from a run folder, a checkpoint, or a model folder.

    `tokenizer` is another path of the tokenizer it was trained with; `base` is the new path of an
    adapter's base model, if it was moved.
    """
    load_parts(user_files)
    return load_model(
        as_path(folder, "folder"),
        tokenizer=None if tokenizer is None else as_path(tokenizer, "tokenizer"),
        base=None if base is None else as_path(base, "base"),
    )


def predict(
    run: str | PathLike[str] | LoadedModel,
    rows: Any,
    *,
    header: bool = True,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    on_progress: OnProgress = no_progress,
) -> list[dict[str, Any]]:
    """Predictions of a task's model for every row, with confidences.

    `rows` are a file, a list (of texts; of tuples, where the task reads several; of dictionaries by
    column) or a data frame. `at` is a row's location, `record` the row with all its columns.
    `predicted` is None for a row without text.
    """
    from regard.runs.models.predict import predict as predict_rows  # tasks load scipy

    if isinstance(rows, PathLike) or (isinstance(rows, str) and not rows):
        rows = as_path(rows, "rows")
    loaded = run if isinstance(run, LoadedModel) else load(run, user_files=user_files)
    return predict_rows(loaded, rows, header=header, on_progress=on_progress)


def ledger(
    run: str | PathLike[str] | LoadedModel,
    *,
    base: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> Ledger:
    """Every trained tensor of a run, and the closed formula of the parameter count.

    For an imported model: what full fine-tuning would train."""
    loaded = run if isinstance(run, LoadedModel) else load(run, base=base, user_files=user_files)
    saved = loaded.saved
    built = build_ledger(saved.model, saved.adapter, saved.family, vocabulary=saved.vocabulary)
    return replace(built, is_projected="imported" in saved.config)


def import_model(source: str | PathLike[str], out: str | PathLike[str]) -> ImportReport:
    """Import a Hugging Face folder, a GGUF file or `pip:NAME` as a model folder to start from."""
    named = source if isinstance(source, str) else str(as_path(source, "source"))
    return import_checkpoint(named, as_path(out, "out"))


def export_model(
    run: str | PathLike[str],
    out: str | PathLike[str],
    *,
    merge: bool = False,
    base: str | PathLike[str] | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> ExportReport:
    """Export a run or a model folder as a folder that transformers loads.

    An adapter is written to `out/adapter` in peft's format; with `merge` it is merged instead.
    """
    path, target = as_path(run, "run"), as_path(out, "out")
    base_path = None if base is None else as_path(base, "base")
    saved = load(path, base=base_path, user_files=user_files).saved
    return export_saved_model(saved, target, path=path, merge=merge, base=base_path)


def inspect(
    run: str | PathLike[str] | LoadedModel,
    text: str,
    *,
    target: str | None = None,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> Inspection:
    """Attention weights of every layer and head on a text, and the loss of each token.

    A seq2seq model takes the text as its source and predicts `target`, or its own generation.
    """
    check_text(text, "text")
    loaded = run if isinstance(run, LoadedModel) else load(run, user_files=user_files)
    return inspect_model(loaded, text, target=target)


def audit(
    model: Any,
    mask: str | Tensor | Mask | None = None,
    sample: Tensor | None = None,
    *,
    lengths: Sequence[int] | None = None,
    seed: int = 0,
    user_files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
) -> Audit:
    """Whether a model sees what `mask` forbids, what else changes its outputs, unused parameters.

    `model` is a run folder, a model of regard's, any module or Hugging Face model, or a callable
    from token ids (b,t) or embeddings (b,t,w) to outputs (b,t,…); it is not changed. `mask` is a
    name ("causal", "bidirectional", "prefix:3", …), a (t,t) table or a Mask, True = may attend;
    without one it is the model's `visibility`, else causal. A `sample` of inputs is needed if
    the vocabulary cannot be found. For a callable that hides its module only outputs are compared:
    not its training mode, cache, padding or parameters.
    """
    if isinstance(model, str | PathLike):
        model = load(model, user_files=user_files)
    permission = None if mask is None else _permission(mask)
    model = auditable(model)
    return audit_model(model, mask=permission, sample=sample, seed=seed, lengths=lengths)


def _permission(mask: str | Tensor | Mask) -> Permission:
    """What a mask allows, as a function of the length."""
    if isinstance(mask, Tensor):
        return build_permission(mask)
    if isinstance(mask, Mask):
        # Allowed for one row or head counts as allowed: the audit looks for what none may see.
        return Permission(mask.name, lambda t: mask.dense(t, t).flatten(0, 1).any(dim=0))
    check_text(mask, "mask")
    return Permission(mask, lambda t: parse_mask(mask, t).dense(t, t)[0, 0])
