"""Hugging Face checkpoint folders: config.json and safetensors, in one file or sharded.

    config.json   model.safetensors
    config.json   model.safetensors.index.json   model-00001-of-00002.safetensors …

Tensors are read one at a time, on demand. Pickled weights are refused, because unpickling can run
arbitrary code; code that a config names (auto_map) is not run either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.core.errors import UserError
from regard.core.untrusted import parse_json, read_limited
from regard.interop.huggingface.config_keys import ConfigKeys

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "*.bin")


class StoredTensor(NamedTuple):
    """A tensor of a checkpoint, read on demand."""

    shape: tuple[int, ...]
    read: Callable[[], Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """The config and tensors of a model from another library."""

    config: ConfigKeys
    tensors: Mapping[str, StoredTensor]
    where: str
    "The file of the tensors, for errors."
    remarks: list[str] = field(default_factory=list)
    "Notes for the import report."


def read_checkpoint(folder: Path) -> Checkpoint:
    config = ConfigKeys(read_json_table(folder / "config.json"), file=str(folder / "config.json"))
    remarks = []
    if "auto_map" in config:
        remarks.append(
            "its config names custom code (auto_map), which is not run: the model is built from "
            "its model_type alone"
        )
    if (folder / INDEX).is_file():
        return Checkpoint(config, _shards(folder), str(folder / INDEX), remarks)
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise _no_weights(folder)
    return Checkpoint(config, _stored_tensors(weights), str(weights), remarks)


def open_safetensors(file: Path) -> Any:
    """Open a safetensors file; a missing or damaged one is a `UserError`."""
    try:
        return safe_open(file, framework="pt")
    except FileNotFoundError:
        raise UserError(
            "is missing", topic="import", where=str(file), hint="Download the checkpoint again."
        ) from None
    except SafetensorError as problem:
        raise UserError(
            f"is damaged or truncated ({problem})",
            topic="import",
            where=str(file),
            hint="Download the file again.",
        ) from None


def read_json_table(file: Path) -> dict[str, Any]:
    """A JSON file of another library whose content is an object."""
    value = read_external_json(file)
    if not isinstance(value, dict):
        raise UserError("is not a JSON object", topic="import", where=str(file))
    return value


def read_external_json(file: Path) -> Any:
    """The content of a JSON file of another library."""
    try:
        return parse_json(read_limited(file))
    except FileNotFoundError:
        raise UserError(
            "there is no such file",
            topic="import",
            where=str(file),
            hint="Give a folder with config.json and model.safetensors, or a .gguf file.",
        ) from None
    except ValueError as problem:  # not JSON, or not even UTF-8
        raise UserError(f"is not JSON ({problem})", topic="import", where=str(file)) from None


def _stored_tensors(file: Path) -> dict[str, StoredTensor]:
    with open_safetensors(file) as opened:
        return {
            name: StoredTensor(
                tuple(opened.get_slice(name).get_shape()), partial(_read_tensor, file, name)
            )
            for name in sorted(opened.keys())
        }


def _read_tensor(file: Path, name: str) -> Tensor:
    with open_safetensors(file) as opened:
        tensor: Tensor = opened.get_tensor(name)
        return tensor


def _shards(folder: Path) -> dict[str, StoredTensor]:
    index = folder / INDEX
    weight_map = read_json_table(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(map(_is_file_name, weight_map.values())):
        raise UserError(
            "has no weight_map from tensors to files of its folder",
            topic="import",
            where=str(index),
        )
    stored = {shard: _stored_tensors(folder / shard) for shard in sorted({*weight_map.values()})}
    missing = [name for name, shard in weight_map.items() if name not in stored[shard]]
    if missing:
        raise UserError(
            f"{missing[0]} is not in {weight_map[missing[0]]}",
            topic="import",
            where=str(index),
            hint="Download the checkpoint again.",
        )
    return {name: stored[shard][name] for name, shard in sorted(weight_map.items())}


def _is_file_name(name: Any) -> bool:
    """A file in the same folder, not a path that leads elsewhere."""
    return isinstance(name, str) and Path(name).name == name


def _no_weights(folder: Path) -> UserError:
    pickled = sorted(file.name for pattern in PICKLES for file in folder.glob(pattern))
    if pickled:
        return UserError(
            f"{pickled[0]} is a pickle, and unpickling can run arbitrary code",
            topic="import",
            where=str(folder),
            hint="If you trust it, convert it to safetensors: "
            "transformers.AutoModel.from_pretrained(folder).save_pretrained(new_folder).",
        )
    return UserError(
        f"holds no {WEIGHTS} (nor {INDEX})",
        topic="import",
        where=str(folder),
        hint="Give the folder of a complete checkpoint.",
    )
