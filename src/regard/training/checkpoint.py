"""Checkpoints: all that a killed run needs to go on bit for bit, in safetensors and JSON.

    checkpoints/step-000500/ {config.json model.safetensors optimiser.safetensors tokenizer.json
                              state.json manifest.json}

Random states need no saving: dropout, order and samples are functions of seed and step. No pickle
is ever read or written. Shared tensors (a tied output layer) are saved once; frozen ones, where
they lie in the base that an adapter is for, never.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.core.errors import UserError
from regard.core.files import damage, read_json, sealed_folder, write_json
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.training.batch_loader import Cursor

STATE_SCHEMA = 1
CONFIG_SCHEMA = 2
WEIGHTS_FILE = "model.safetensors"
ADAPTER_FILE = "adapter_model.safetensors"


@dataclass(frozen=True)
class TrainingState:
    """How far a training has come; everything that is not a tensor."""

    step: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    tokens: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    "Of these seconds, those in which no batch was ready."
    best_loss: float | None = None
    best_step: int = 0
    looks_since_best: int = 0
    source: str = ""
    "Hash of the text it is trained on."
    tokenizer: str = ""
    "Fingerprint of the tokenizer it is trained with."
    machine: Mapping[str, Any] = field(default_factory=dict)
    "What decides the bits: device, precision, threads, versions."

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> TrainingState:
        rest = {key: value for key, value in table.items() if key != "schema"}
        return replace(cls(**rest), cursor=Cursor(**rest["cursor"]))


def save_model(
    folder: Path, model: nn.Module, tokenizer: Tokenizer, config: Mapping[str, Any]
) -> None:
    """Weights, tokenizer and config: what it takes to use a model."""
    write_tensors(weights_of(model), folder / WEIGHTS_FILE)
    save_description(folder, tokenizer, config)


def save_description(folder: Path, tokenizer: Tokenizer, config: Mapping[str, Any]) -> None:
    """What weights belong to."""
    tokenizer.save(folder)
    write_json(folder / "config.json", {"schema": CONFIG_SCHEMA, **config})


def load_weights(model: nn.Module, file: Path) -> None:
    """Fill a model from a file; a name too many or too few is an error."""
    fill(model, read_tensors(file), where=file)


def fill(model: nn.Module, found: Mapping[str, Tensor], *, where: Path) -> None:
    """Give a model the tensors it was saved with, those of `where`."""
    own = weights_of(model)
    if own.keys() != found.keys():
        surplus, absent = sorted(found.keys() - own.keys()), sorted(own.keys() - found.keys())
        raise UserError(
            f"{where} does not fit the model: not in the model {surplus[:3]}, "
            f"not in the file {absent[:3]}",
            topic="model",
        )
    for name, tensor in own.items():
        if tensor.shape != found[name].shape:
            raise UserError(
                f"{where}: {name} has shape {tuple(found[name].shape)}, "
                f"the model's is {tuple(tensor.shape)}",
                topic="model",
            )
        tensor.copy_(found[name])


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: Optimizer,
    state: TrainingState,
    *,
    tokenizer: Tokenizer,
    config: Mapping[str, Any],
) -> Path:
    path = folder / f"step-{state.step:06d}"
    with sealed_folder(path) as inside:
        save_model(inside, model, tokenizer, config)
        write_tensors(_optimizer_tensors(model, optimizer), inside / "optimiser.safetensors")
        write_json(inside / "state.json", {"schema": STATE_SCHEMA, **asdict(state)})
    return path


def load_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer) -> TrainingState:
    load_weights(model, path / WEIGHTS_FILE)
    saved = read_tensors(path / "optimiser.safetensors")
    for name, parameter in model.named_parameters():
        moments = {
            key.rpartition("|")[2]: tensor
            for key, tensor in saved.items()
            if key.rpartition("|")[0] == name
        }
        if moments:
            optimizer.state[parameter] = {
                key: tensor if key == "step" else tensor.to(parameter.device)
                for key, tensor in moments.items()
            }
    return TrainingState.from_dict(read_json(path / "state.json", schema=STATE_SCHEMA))


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first, damaged ones included."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if re.fullmatch(r"step-\d+", path.name)]
    return sorted(found, key=_step)


def newest_whole(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is whole, and what is wrong with those after it."""
    complaints: list[str] = []
    for path in reversed(checkpoints(folder)):
        complaint = damage(path)
        if complaint is None:
            return path, complaints
        complaints.append(complaint)
    return None, complaints


def prune(folder: Path, *, newest: int, keep: int, spare: int) -> None:
    """Drop all but `keep` checkpoints up to step `newest`, but for step `spare`.

    Those after `newest` go too (a resumed run passed over them as damaged), and what a kill left.
    """
    for left in folder.glob(".step-*"):
        shutil.rmtree(left)
    up_to_now = [path for path in checkpoints(folder) if _step(path) <= newest]
    kept = {*up_to_now[-keep:], folder / f"step-{spare:06d}"}
    for path in checkpoints(folder):
        if path not in kept:
            shutil.rmtree(path)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


@torch.no_grad()
def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """What is saved of a model: tensors by name, without frozen ones where its base has them; one
    that several names share goes by the first."""
    seen: set[int] = set()
    tensors = {}
    apart = getattr(model, "base_apart", False)
    frozen = {name for name, one in model.named_parameters() if apart and not one.requires_grad}
    for name, tensor in model.state_dict().items():
        if name in frozen:
            seen.add(tensor.data_ptr())
        elif tensor.data_ptr() not in seen or tensor.numel() == 0:
            seen.add(tensor.data_ptr())
            tensors[name] = tensor
    return tensors


def _optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}|{key}": tensor.contiguous()
        for name, parameter in model.named_parameters()
        for key, tensor in optimizer.state[parameter].items()
    }


def write_tensors(tensors: dict[str, Tensor], file: Path) -> None:
    try:
        save_file(tensors, file, metadata={"format": "pt"})
    except SafetensorError as problem:
        # The library hides the system's error number in its words; a full disk has to be told.
        number = re.search(r"\(os error (\d+)\)", str(problem))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(file)) from problem


def read_tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except FileNotFoundError:
        raise UserError(f"{file} is missing", topic="model") from None
    except SafetensorError as problem:
        raise UserError(f"{file} is damaged: {problem}", topic="model") from None
