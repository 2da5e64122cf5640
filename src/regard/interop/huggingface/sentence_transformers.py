"""sentence-transformers folders: pooling, normalisation and the length limit of their texts.

modules.json   1_Pooling/config.json   sentence_bert_config.json
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.interop.huggingface.checkpoint import read_external_json, read_json_table
from regard.interop.huggingface.config_keys import ConfigKeys
from regard.models.heads.task_heads import Pooling

POOLINGS: dict[str, Pooling] = {"cls": "first", "mean": "mean", "lasttoken": "last"}
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
"Older folders have one flag for each pooling mode."


@dataclass(frozen=True)
class SentenceEncoderConfig:
    """How a checkpoint pools hidden states into a sentence embedding."""

    folder: Path
    "The folder of its Transformer."
    pooling: Pooling | None = None
    normalise: bool = False
    max_tokens: int | None = None
    "Maximum tokens of a text, special tokens included; None if unlimited."
    remarks: list[str] = field(default_factory=list)


def read_sentence_encoder_config(folder: Path) -> SentenceEncoderConfig:
    """Read modules.json and its modules; a folder without them has no pooling."""
    file = folder / "modules.json"
    if not file.is_file():
        return SentenceEncoderConfig(folder)
    modules = read_external_json(file)
    if not (isinstance(modules, list) and modules and all(_is_module(m) for m in modules)):
        raise UserError("is not a list of modules", topic="import", where=str(file))
    # By class name: the type is a dotted path.
    paths = {m["type"].rpartition(".")[2]: folder / m["path"] for m in modules}
    max_tokens, remarks = _preprocessing(folder)
    pooling = _pooling(paths["Pooling"] / "config.json", remarks) if "Pooling" in paths else None
    others = sorted(paths.keys() - {"Transformer", "Pooling", "Normalize"})
    if others:
        remarks.append(
            f"its pooling is followed by {', '.join(others)}, which regard does not have: "
            "its sentence embeddings cannot be computed here"
        )
        pooling = None
    body = paths.get("Transformer", folder)
    return SentenceEncoderConfig(body, pooling, "Normalize" in paths, max_tokens, remarks)


def _is_module(module: Any) -> bool:
    """A table with a type, and with a path inside the folder."""
    if not isinstance(module, dict) or not isinstance(module.get("type"), str):
        return False
    path = module.get("path")
    return isinstance(path, str) and (path == "" or Path(path).name == path)


def _pooling(file: Path, remarks: list[str]) -> Pooling | None:
    table = read_json_table(file)
    given = table.get("pooling_mode") or [mode for flag, mode in FLAGS.items() if table.get(flag)]
    modes = [given] if isinstance(given, str) else list(given)
    if len(modes) == 1 and modes[0] in POOLINGS:
        return POOLINGS[modes[0]]
    remarks.append(
        f"its pooling is {' and '.join(map(str, modes)) or 'none'}, which regard does not have: "
        f"choose {', '.join(POOLINGS.values())} yourself"
    )
    return None


def _preprocessing(folder: Path) -> tuple[int | None, list[str]]:
    """The length limit of texts, and remarks about truncation and lower-casing."""
    file = folder / "sentence_bert_config.json"
    if not file.is_file():
        return None, []
    keys = ConfigKeys(read_json_table(file), file=str(file))
    max_tokens = keys.integer("max_seq_length", 0) or None
    remarks = []
    if max_tokens:
        remarks.append(f"sentence-transformers truncates its texts to {max_tokens} tokens")
    if keys.table.get("do_lower_case"):
        remarks.append("sentence-transformers lower-cases its texts first: do the same")
    return max_tokens, remarks
