"""What a sentence-transformers folder adds: how its vectors become one for a whole text.

modules.json   1_Pooling/config.json   sentence_bert_config.json
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.interop.huggingface.checkpoint import read_document, read_table
from regard.interop.huggingface.config_keys import Keys
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
"How older folders say it: one flag for each way."


@dataclass(frozen=True)
class SentenceEncoderConfig:
    """How a checkpoint makes a sentence of its places."""

    folder: Path
    "Where its Transformer stands."
    pooling: Pooling | None = None
    normalise: bool = False
    longest: int | None = None
    "Tokens of a text at most, specials too."
    remarks: list[str] = field(default_factory=list)


def read_sentences(folder: Path) -> SentenceEncoderConfig:
    """Of a folder that may also be a plain one."""
    file = folder / "modules.json"
    if not file.is_file():
        return SentenceEncoderConfig(folder)
    modules = read_document(file)
    if not (isinstance(modules, list) and modules and all(_is_module(m) for m in modules)):
        raise UserError("is not a list of modules", topic="import", where=str(file))
    sorts = {_sort(module): folder / module["path"] for module in modules}
    longest, remarks = _reading(folder)
    pooling = _pooling(sorts["Pooling"] / "config.json", remarks) if "Pooling" in sorts else None
    others = sorted(sorts.keys() - {"Transformer", "Pooling", "Normalize"})
    if others:
        remarks.append(
            f"behind its pooling stands {', '.join(others)}, which regard does not have: "
            "its sentence vectors are not to be had here"
        )
        pooling = None
    body = sorts.get("Transformer", folder)
    return SentenceEncoderConfig(body, pooling, "Normalize" in sorts, longest, remarks)


def _is_module(module: Any) -> bool:
    """With a type, and with a path that stays in the folder."""
    if not isinstance(module, dict) or not isinstance(module.get("type"), str):
        return False
    path = module.get("path")
    return isinstance(path, str) and (path == "" or Path(path).name == path)


def _sort(module: dict[str, Any]) -> str:
    return str(module["type"]).rpartition(".")[2]


def _pooling(file: Path, remarks: list[str]) -> Pooling | None:
    table = read_table(file)
    asked = table.get("pooling_mode") or [way for flag, way in FLAGS.items() if table.get(flag)]
    ways = [asked] if isinstance(asked, str) else list(asked)
    if len(ways) == 1 and ways[0] in POOLINGS:
        return POOLINGS[ways[0]]
    remarks.append(
        f"it pools by {' and '.join(map(str, ways)) or 'nothing'}, which regard does not have: "
        f"choose {', '.join(POOLINGS.values())} yourself"
    )
    return None


def _reading(folder: Path) -> tuple[int | None, list[str]]:
    """Where texts are cut before they are read, and what else happens to them."""
    file = folder / "sentence_bert_config.json"
    if not file.is_file():
        return None, []
    keys = Keys(read_table(file), file=str(file))
    longest = keys.integer("max_seq_length", 0) or None
    said = [f"sentence-transformers cuts its texts at {longest} tokens"] if longest else []
    if keys.table.get("do_lower_case"):
        said.append("sentence-transformers lower-cases its texts first: do the same")
    return longest, said
