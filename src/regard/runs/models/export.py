"""A trained model for other tools: a folder that transformers loads, and an adapter beside it.

FOLDER/            config.json  model.safetensors  tokenizer.json  tokenizer_config.json
FOLDER/adapter/    adapter_config.json  adapter_model.safetensors    unless it is merged
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from regard.adapters.none import NoTraining
from regard.core.errors import UserError
from regard.core.files import atomic_folder
from regard.interop.export_model import ExportReport, export_model
from regard.interop.peft import KINDS
from regard.models.task_models.task_model import TaskModel
from regard.runs.models.adapter_files import trained_of_body, write_adapter
from regard.runs.models.base_model import find_base
from regard.runs.models.saved_model import SavedModel, architecture_of, load_saved

HEAD_STAYS = "the head of its task is not exported: `regard predict` answers with it"


def export_saved(
    saved: SavedModel, out: Path, *, place: Path, merge: bool, base: Path | None = None
) -> ExportReport:
    """Write the model into the new folder `out`; with `merge`, what was adapted is one with it."""
    trains_nothing = isinstance(saved.adapter, NoTraining)  # it is its base, with nothing beside it
    apart = saved.adapter.saves_adapter_only and not (merge or trains_nothing)
    kind = str(saved.config["adapt"]["kind"]) if apart else ""
    if apart and kind not in KINDS:
        raise UserError(
            f"an adapter of kind {kind!r} cannot lie beside its base: other tools have no such",
            topic="export",
            hint="Add --merge.",
        )
    body = saved.body
    if apart:
        below = find_base(saved.config["base"], owner=place, given=base)
        body = load_saved(below, place=below).plain_body()
        trained = trained_of_body(saved.model)
    else:
        body = saved.plain_body()
    named = architecture_of(saved.config)
    exported = export_model(body, saved.family, saved.tokenizer, out, architecture=named)
    remarks = list(exported.remarks)
    if apart:
        with atomic_folder(out / "adapter") as inside:
            remarks += write_adapter(
                inside,
                trained,
                adapter=saved.config["adapt"],
                family=saved.family,
                tokenizer=saved.tokenizer,
                base=str(out),
                architecture=named,
            )
    if isinstance(saved.model, TaskModel):
        remarks.append(HEAD_STAYS)
    return replace(exported, remarks=remarks)
