"""A Hugging Face folder: config.json, and weights in safetensors, in one file or in shards.

    config.json   model.safetensors
    config.json   model.safetensors.index.json   model-00001-of-00002.safetensors …

Tensors are read one at a time, when they are asked for. Weights that are pickled are refused:
unpickling runs whatever code its writer put there. Nor is any code run that a config names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.core.errors import UserError
from regard.interop.huggingface.config_keys import Keys

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "*.bin")


class Tensors(Protocol):
    """Tensors by name, each read when it is asked for."""

    where: str
    "The file they stand in, for errors."

    def names(self) -> list[str]: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def read(self, name: str) -> Tensor: ...


@dataclass(frozen=True)
class Checkpoint:
    """A model as another tool left it."""

    config: Keys
    tensors: Tensors
    remarks: list[str] = field(default_factory=list)
    "What a person should know of it."


class ShardedTensors:
    """The tensors of safetensors files, of which one is the usual case."""

    def __init__(self, files: Mapping[str, Path], *, where: str) -> None:
        self._files = files
        "Which file each tensor stands in."
        self.where = where

    def names(self) -> list[str]:
        return sorted(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        with opened(self._files[name]) as file:
            return tuple(file.get_slice(name).get_shape())

    def read(self, name: str) -> Tensor:
        with opened(self._files[name]) as file:
            tensor: Tensor = file.get_tensor(name)
            return tensor


def read_checkpoint(folder: Path) -> Checkpoint:
    config = Keys(read_table(folder / "config.json"), file=str(folder / "config.json"))
    remarks = []
    if "auto_map" in config:
        remarks.append(
            "its config names code of its own (auto_map), which is not run: the model is taken "
            "by its model_type alone"
        )
    return Checkpoint(config, _tensors(folder), remarks)


def opened(file: Path) -> Any:
    """A safetensors file; damage is said in words."""
    try:
        return safe_open(file, framework="pt")
    except FileNotFoundError:
        raise UserError(
            "is missing", topic="import", where=str(file), hint="Get the whole checkpoint anew."
        ) from None
    except SafetensorError as problem:
        raise UserError(
            f"is damaged or cut short ({problem})",
            topic="import",
            where=str(file),
            hint="Get the file anew.",
        ) from None


def read_table(file: Path) -> dict[str, Any]:
    """A JSON file of another tool that holds a table."""
    value = read_document(file)
    if not isinstance(value, dict):
        raise UserError("is not a table of settings", topic="import", where=str(file))
    return value


def read_document(file: Path) -> Any:
    """A JSON file of another tool."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            "there is no such file",
            topic="import",
            where=str(file),
            hint="Give a folder with config.json and model.safetensors, or a .gguf file.",
        ) from None
    except ValueError as problem:  # not JSON, or not even UTF-8
        raise UserError(f"is not JSON ({problem})", topic="import", where=str(file)) from None


def _tensors(folder: Path) -> ShardedTensors:
    if (folder / INDEX).is_file():
        return _shards(folder)
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise _no_weights(folder)
    with opened(weights) as file:
        return ShardedTensors(dict.fromkeys(file.keys(), weights), where=str(weights))


def _shards(folder: Path) -> ShardedTensors:
    index = folder / INDEX
    named = read_table(index).get("weight_map")
    if not isinstance(named, dict) or not all(_is_beside(name) for name in named.values()):
        raise UserError(
            "has no weight_map from tensors to files beside it", topic="import", where=str(index)
        )
    held: dict[str, set[str]] = {}
    for shard in sorted(set(named.values())):
        with opened(folder / shard) as file:
            held[shard] = set(file.keys())
    astray = [name for name, shard in named.items() if name not in held[shard]]
    if astray:
        raise UserError(
            f"{astray[0]} should be in {named[astray[0]]}, and is not",
            topic="import",
            where=str(index),
            hint="Get the whole checkpoint anew.",
        )
    files = {name: folder / shard for name, shard in named.items()}
    return ShardedTensors(files, where=str(index))


def _is_beside(name: Any) -> bool:
    """A shard is a file of the same folder, not one that an index points to elsewhere."""
    return isinstance(name, str) and Path(name).name == name


def _no_weights(folder: Path) -> UserError:
    pickled = sorted(file.name for pattern in PICKLES for file in folder.glob(pattern))
    if pickled:
        return UserError(
            f"{pickled[0]} is a pickle, and reading one runs whatever code is in it",
            topic="import",
            where=str(folder),
            hint="Where you trust it, write it anew as safetensors: "
            "transformers.AutoModel.from_pretrained(folder).save_pretrained(new_folder).",
        )
    return UserError(
        f"holds no {WEIGHTS} (nor {INDEX})",
        topic="import",
        where=str(folder),
        hint="Give the folder of a whole checkpoint.",
    )
