"""Export a trained model: a folder that transformers loads, and an adapter beside it.

FOLDER/            config.json  model.safetensors  tokenizer.json  tokenizer_config.json
FOLDER/adapter/    adapter_config.json  adapter_model.safetensors    unless merged
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from regard.adapters.none import NoTraining
from regard.core.errors import UserError
from regard.core.files import atomic_folder
from regard.interop.export_model import ExportReport, export_model
from regard.interop.peft import PEFT_KINDS
from regard.runs.models.adapter_files import trained_body_tensors, write_adapter
from regard.runs.models.base_model import find_base
from regard.runs.models.saved_model import SavedModel, architecture_of, load_saved_model

HEAD_NOT_EXPORTED = "the head of its task is not exported: `regard predict` answers with it"


def export_saved_model(
    saved: SavedModel, out: Path, *, path: Path, merge: bool, base: Path | None = None
) -> ExportReport:
    """Write the model into the new folder `out`; with `merge`, the adapter is merged into it."""
    trains_nothing = isinstance(saved.adapter, NoTraining)  # equal to its base model
    separate = saved.adapter.saves_adapter_only and not (merge or trains_nothing)
    kind = str(saved.config["adapt"]["kind"]) if separate else ""
    if separate and kind not in PEFT_KINDS:
        raise UserError(
            f"peft has no adapter of kind {kind!r}, so it cannot be exported beside its base model",
            topic="export",
            hint="Add --merge.",
        )
    body = saved.body
    if separate:
        base_folder = find_base(saved.config["base"], owner=path, given=base)
        body = load_saved_model(base_folder, path=base_folder).plain_body()
        trained = trained_body_tensors(saved.model)
    else:
        body = saved.plain_body()
    architecture = architecture_of(saved.config)
    has_head = saved.model.task_head is not None and not separate
    report = export_model(
        body,
        saved.family,
        saved.tokenizer,
        out,
        architecture=architecture,
        head=saved.model.task_head if has_head else None,
        task_state=saved.problem.state() if has_head and saved.problem else None,
    )
    remarks = list(report.remarks)
    if separate:
        with atomic_folder(out / "adapter") as temporary:
            remarks += write_adapter(
                temporary,
                trained,
                adapter=saved.config["adapt"],
                family=saved.family,
                tokenizer=saved.tokenizer,
                base=str(out),
                architecture=architecture,
            )
    if saved.model.task_head is not None and not report.has_head:
        remarks.append(HEAD_NOT_EXPORTED)
    return replace(report, remarks=remarks)
