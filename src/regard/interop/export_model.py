"""Export a model as a folder that transformers loads.

    config.json   model.safetensors   tokenizer.json   tokenizer_config.json

The architecture must express the settings exactly. If none does, the error lists the unsupported
settings: an approximation would give other outputs under the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.core.errors import UserError
from regard.core.files import atomic_folder, write_json
from regard.core.settings import catalog_name
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.huggingface.architecture import ARCHITECTURES, Architecture, architecture_class
from regard.interop.huggingface.task_heads import CLASSIFIER, export_head
from regard.interop.huggingface.tensors import export_tensors
from regard.models.families import FAMILIES, Family
from regard.models.families.transformer import Transformer
from regard.models.tensor_files import write_tensors
from regard.tasks import TaskState

TOKENS = {"bos_token_id": "start", "eos_token_id": "stop", "pad_token_id": "pad"}


@dataclass(frozen=True)
class ExportReport:
    """The exported folder and what the user should know about it."""

    folder: Path
    architecture: str
    remarks: list[str]
    has_head: bool = False
    "Whether the head of its task was exported too."

    def lines(self) -> list[str]:
        """The report, one fact per line."""
        lines = [f"architecture  {self.architecture}"]
        return lines + [f"remark        {remark}" for remark in self.remarks]

    def as_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "architecture": self.architecture,
            "has_head": self.has_head,
            "remarks": self.remarks,
        }


def export_model(
    model: nn.Module,
    family: Family,
    tokenizer: Tokenizer,
    out: Path,
    *,
    architecture: str | None = None,
    head: nn.Module | None = None,
    task_state: TaskState | None = None,
) -> ExportReport:
    """Write the new folder `out`; `architecture` selects one of several that match. The `head` of a
    task, with its state, is written too if transformers has one like it."""
    if out.exists():
        raise UserError(
            "is already there", topic="export", where=str(out), hint="Give a new folder."
        )
    target, settings = find_export_architecture(family, tokenizer, architecture)
    vocabulary = model.get_parameter("embedding.tokens.weight").shape[0]
    has_pooler = bool(getattr(settings, "pooler", False))
    exported = export_head(head, task_state or {}, target, has_pooler=has_pooler)
    if exported is not None and exported.class_suffix == CLASSIFIER:
        target = target.with_classifier()
    with atomic_folder(out) as inside:
        tensors = export_tensors(model, target, family=settings)
        config = _config(target, settings, vocabulary, tokenizer)
        if exported is not None:
            tensors |= exported.tensors
            [body_class] = config["architectures"]
            prefix = body_class.partition("For")[0].removesuffix("Model")
            config |= {"architectures": [prefix + exported.class_suffix], **exported.config}
        write_tensors(tensors, inside / "model.safetensors")
        tokenizer.save(inside)
        write_json(inside / "config.json", config)
    remarks = target.export_remarks(settings)
    return ExportReport(out, target.name, remarks, has_head=exported is not None)


def find_export_architecture(
    family: Family, tokenizer: Tokenizer, name: str | None = None
) -> tuple[Architecture, Transformer]:
    """The first architecture, or the one called `name`, that can express the family's settings;
    and these settings."""
    candidates = [name] if name is not None else ARCHITECTURES.names()
    unsupported: dict[str, list[str]] = {}
    for candidate in candidates:
        cls = architecture_class(candidate)
        if isinstance(family, Transformer) and cls.family == catalog_name(family, FAMILIES):
            # The check needs no tokenizer, which `for_tokenizer` may refuse.
            unsupported[candidate] = cls().unsupported_settings(family)
            if not unsupported[candidate]:
                return cls.for_tokenizer(tokenizer), family
    raise UserError(_no_architecture(family, name, unsupported), topic="export")


def _no_architecture(family: Family, name: str | None, unsupported: dict[str, list[str]]) -> str:
    """The unsupported settings of each architecture of the same family."""
    if not unsupported:
        family_name = catalog_name(family, FAMILIES)
        if name is None:
            return f"regard exports no architecture of family {family_name}"
        return f"the architecture {name} is not of family {family_name}"
    reasons = [f"{each} does not have {', '.join(keys)}" for each, keys in unsupported.items()]
    return f"no architecture of transformers matches this model: {'; '.join(reasons)}"


def _config(
    architecture: Architecture, family: Transformer, vocabulary: int, tokenizer: Tokenizer
) -> dict[str, Any]:
    roles = {"start": tokenizer.start, "stop": tokenizer.stop, "pad": tokenizer.pad}
    tokens = {key: roles[role] for key, role in TOKENS.items()}
    return {**tokens, **architecture.config(family, vocabulary=vocabulary), "dtype": "float32"}
