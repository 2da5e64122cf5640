"""Files of an adapter: the trained tensors, without the base model.

    adapter_config.json  adapter_model.safetensors    tensors added to the body, or trained of it
    head.safetensors                                  the task head, if there is one

If peft has the kind of adapter and transformers the architecture of the base model, both adapter
files are in peft's format; else the tensors keep regard's names, and a remark says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.core.errors import UserError
from regard.core.files import write_json
from regard.core.untrusted import damage_named
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.export_model import find_export_architecture
from regard.interop.huggingface.checkpoint import read_json_table
from regard.interop.peft import PEFT_KINDS, from_peft, to_peft
from regard.models.families import Family
from regard.models.families.encoder import Encoder
from regard.models.model import Model
from regard.models.tensor_files import read_tensors, write_tensors
from regard.training.checkpoint import (
    ADAPTER_FILE,
    load_tensors,
    model_tensors,
    save_config_and_tokenizer,
)

if TYPE_CHECKING:
    from regard.runs.experiment import Experiment

ADAPTER_CONFIG = "adapter_config.json"
HEAD_FILE = "head.safetensors"


def save_adapter(folder: Path, experiment: Experiment) -> list[str]:
    """Save the adapter of a finished training into `folder`; returns remarks."""
    config, tokenizer = experiment.config(), experiment.prepared.tokenizer
    body, head = _split_head(experiment.model, model_tensors(experiment.model))
    remarks = write_adapter(
        folder,
        body,
        adapter=config["adapt"],
        family=experiment.recipe.model,
        tokenizer=tokenizer,
        base=config["base"]["path"],
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
    """Write the two adapter files for the base model at `base`; if peft has the kind of adapter
    but cannot read this one, a remark says why."""
    config: dict[str, Any] = {"peft_type": None, "base_model_name_or_path": base}
    tensors = dict(body)
    remarks = []
    if adapter["kind"] in PEFT_KINDS:
        try:
            _check_same_in_peft(adapter, family)
            target, settings = find_export_architecture(family, tokenizer, architecture)
            config, tensors = to_peft(
                body, adapter=adapter, family=settings, architecture=target, base=base
            )
        except UserError as problem:
            remarks.append(f"peft cannot read the adapter: {problem.what}")
    write_json(folder / ADAPTER_CONFIG, config)
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
    """Load the trained tensors from a folder that was checked intact."""
    config = read_json_table(folder / ADAPTER_CONFIG)
    tensors = read_tensors(folder / ADAPTER_FILE)
    if config.get("peft_type") is not None:
        source, settings = find_export_architecture(family, tokenizer, architecture)
        modules = [name.rpartition(".")[0] for name in trained_body_tensors(model)]
        with damage_named("the adapter", topic="model", where=str(folder / ADAPTER_CONFIG)):
            _, tensors = from_peft(
                config, tensors, family=settings, architecture=source, modules=modules
            )
    if model.task_head is not None:
        tensors = {f"body.{name}": tensor for name, tensor in tensors.items()}
        if (folder / HEAD_FILE).is_file():
            tensors |= {f"head.{n}": t for n, t in read_tensors(folder / HEAD_FILE).items()}
    load_tensors(model, tensors, where=folder / ADAPTER_FILE)


def trained_body_tensors(model: Model) -> dict[str, Tensor]:
    """The trained tensors without those of the task head, by their names in the body."""
    return _split_head(model, model_tensors(model))[0]


def _check_same_in_peft(adapter: Mapping[str, Any], family: Family) -> None:
    """Refuse a prompt that attends to less than in peft: with documents kept apart it attends to
    itself alone, since a prompt that saw the whole row would leak between documents."""
    if adapter["kind"] == "prompt" and isinstance(family, Encoder) and not family.across_documents:
        raise UserError(
            "with model.across_documents = false a prompt attends to itself alone, and in peft to "
            "the whole row"
        )


def _split_head(
    model: Model, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Tensors of the body and of the head, each by its name there."""
    if model.task_head is None:
        return dict(tensors), {}
    body = {n.removeprefix("body."): t for n, t in tensors.items() if n.startswith("body.")}
    head = {n.removeprefix("head."): t for n, t in tensors.items() if n.startswith("head.")}
    return body, head
