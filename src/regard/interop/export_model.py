"""Write a model as a folder that transformers loads.

    config.json   model.safetensors   tokenizer.json   tokenizer_config.json

The architecture is the one that the settings fit exactly. Where none does, the settings that stand
in the way are named: a model that is nearly the same would give other answers under the same name.
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
from regard.interop.huggingface.architecture import ARCHITECTURES, Architecture, kind_of
from regard.interop.huggingface.tensors import gathered
from regard.models.families import FAMILIES, Family
from regard.models.families.transformer import Transformer
from regard.training.checkpoint import write_tensors

TOKENS = {"bos_token_id": "start", "eos_token_id": "stop", "pad_token_id": "pad"}


@dataclass(frozen=True)
class ExportReport:
    """A folder that was written, and what a person should know of it."""

    folder: Path
    architecture: str
    remarks: list[str]

    def lines(self) -> list[str]:
        """The report, a line for each fact."""
        said = [f"architecture  {self.architecture}"]
        return said + [f"remark        {remark}" for remark in self.remarks]

    def as_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "architecture": self.architecture,
            "remarks": self.remarks,
        }


def export_model(
    model: nn.Module,
    family: Family,
    tokenizer: Tokenizer,
    out: Path,
    *,
    architecture: str | None = None,
) -> ExportReport:
    """Write the new folder `out`; `architecture` where several fit, the first of them if none."""
    if out.exists():
        raise UserError(
            "is already there", topic="export", where=str(out), hint="Give a new folder."
        )
    fitting, settings = fitting_architecture(family, tokenizer, architecture)
    vocabulary = model.get_parameter("embedding.tokens.weight").shape[0]
    with atomic_folder(out) as inside:
        tensors = gathered(model, fitting, family=settings)
        write_tensors(tensors, inside / "model.safetensors")
        tokenizer.save(inside)
        write_json(inside / "config.json", _config(fitting, settings, vocabulary, tokenizer))
    return ExportReport(out, fitting.name, fitting.left_out(settings))


def fitting_architecture(
    family: Family, tokenizer: Tokenizer, asked: str | None = None
) -> tuple[Architecture, Transformer]:
    """The architecture that has all of a family's settings, and these."""
    names = [asked] if asked is not None else ARCHITECTURES.names()
    misfits: dict[str, list[str]] = {}
    for name in names:
        kind = kind_of(name)
        if isinstance(family, Transformer) and kind.family == catalog_name(family, FAMILIES):
            # Whether it fits does not depend on the tokenizer, which it may refuse.
            misfits[name] = kind().misfits(family)
            if not misfits[name]:
                return kind.for_tokenizer(tokenizer), family
    raise UserError(_unfitting(family, asked, misfits), topic="export")


def _unfitting(family: Family, asked: str | None, misfits: dict[str, list[str]]) -> str:
    """What stands in the way, of the architectures that come nearest."""
    if not misfits:
        known = f"architecture {asked}" if asked else "architecture that regard writes"
        return f"no {known} is made as family {catalog_name(family, FAMILIES)} is"
    said = [f"{name} does not have {', '.join(wrong)}" for name, wrong in misfits.items()]
    return f"this model is made as none of transformers: {'; '.join(said)}"


def _config(
    architecture: Architecture, family: Transformer, vocabulary: int, tokenizer: Tokenizer
) -> dict[str, Any]:
    roles = {"start": tokenizer.start, "stop": tokenizer.stop, "pad": tokenizer.pad}
    tokens = {key: roles[role] for key, role in TOKENS.items()}
    return {**tokens, **architecture.config(family, vocabulary=vocabulary), "dtype": "float32"}
