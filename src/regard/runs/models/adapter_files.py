"""What an adapted training leaves behind: the tensors it trained, without the base below them.

    adapter_config.json  adapter_model.safetensors    what was added to the body, or trained of it
    head.safetensors                                  the head of the task, where there is one

Where the peft library has the kind of adapter, and transformers the architecture of the base, both
adapter files are as peft writes and reads them; else the tensors have the names they have here, and
a remark says why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.core.errors import UserError
from regard.core.files import write_json
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.export_model import fitting_architecture
from regard.interop.peft import KINDS, from_peft, to_peft
from regard.models.families import Family
from regard.models.families.encoder import Encoder
from regard.models.model import Model
from regard.models.task_models.task_model import TaskModel
from regard.training.checkpoint import (
    ADAPTER_FILE,
    load_tensors,
    model_tensors,
    read_tensors,
    save_config_and_tokenizer,
    write_tensors,
)

if TYPE_CHECKING:
    from regard.runs.experiment import Experiment

ADAPTER_CONFIG = "adapter_config.json"
HEAD_FILE = "head.safetensors"


def save_adapter(folder: Path, bench: Experiment) -> list[str]:
    """Of a finished training, into `folder`; what a person should know of it."""
    config, tokenizer = bench.config(), bench.prepared.tokenizer
    body, head = _apart(bench.model, model_tensors(bench.model))
    remarks = write_adapter(
        folder,
        body,
        adapter=config["adapt"],
        family=bench.recipe.model,
        tokenizer=tokenizer,
        base=config["base"]["place"],
        architecture=config.get("architecture"),
    )
    if head:
        write_tensors(head, folder / HEAD_FILE)
    save_config_and_tokenizer(folder, tokenizer, config)
    return remarks


def write_adapter(
    folder: Path,
    body: Mapping[str, Tensor],
    *,
    adapter: Mapping[str, Any],
    family: Family,
    tokenizer: Tokenizer,
    base: str,
    architecture: str | None,
) -> list[str]:
    """The two adapter files, for the model that lies in `base`; where peft has the kind of adapter
    and still cannot read this one, the reason is what a person should know."""
    described: dict[str, Any] = {"peft_type": None, "base_model_name_or_path": base}
    tensors = dict(body)
    remarks = []
    if adapter["kind"] in KINDS:
        try:
            _check_read_alike(adapter, family)
            there, settings = fitting_architecture(family, tokenizer, architecture)
            described, tensors = to_peft(
                body, adapter=adapter, family=settings, architecture=there, base=base
            )
        except UserError as problem:
            remarks.append(f"peft cannot read the adapter: {problem.what}")
    write_json(folder / ADAPTER_CONFIG, described)
    write_tensors(tensors, folder / ADAPTER_FILE)
    return remarks


def load_adapter(
    model: Model,
    folder: Path,
    *,
    family: Family,
    tokenizer: Tokenizer,
    architecture: str | None,
) -> None:
    """Fill what an adapter trains, from a folder that was found whole."""
    described = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    found = read_tensors(folder / ADAPTER_FILE)
    if described.get("peft_type") is not None:
        there, settings = fitting_architecture(family, tokenizer, architecture)
        modules = [name.rpartition(".")[0] for name in trained_of_body(model)]
        _, found = from_peft(described, found, family=settings, architecture=there, modules=modules)
    if isinstance(model, TaskModel):
        found = {f"body.{name}": tensor for name, tensor in found.items()}
        if (folder / HEAD_FILE).is_file():
            found |= {f"head.{n}": t for n, t in read_tensors(folder / HEAD_FILE).items()}
    load_tensors(model, found, where=folder / ADAPTER_FILE)


def trained_of_body(model: Model) -> dict[str, Tensor]:
    """What was trained but for the head of the task, by the names it has in the body."""
    return _apart(model, model_tensors(model))[0]


def _check_read_alike(adapter: Mapping[str, Any], family: Family) -> None:
    """Refuse a prompt that reads less than it would in peft: between documents that are kept apart
    it would tell one of the other, and a document has to come out alike alone and among others."""
    if adapter["kind"] == "prompt" and isinstance(family, Encoder) and not family.across_documents:
        raise UserError(
            "with model.across_documents = false a prompt reads itself alone, and in peft it reads "
            "the whole row"
        )


def _apart(
    model: Model, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Those of the body and those of the head, each by the names they have there."""
    if not isinstance(model, TaskModel):
        return dict(tensors), {}
    body = {n.removeprefix("body."): t for n, t in tensors.items() if n.startswith("body.")}
    head = {n.removeprefix("head."): t for n, t in tensors.items() if n.startswith("head.")}
    return body, head
