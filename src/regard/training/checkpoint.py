"""Checkpoints: everything a killed run needs to resume bit for bit, in safetensors and JSON.

    checkpoints/step-000500/ {config.json model.safetensors optimizer.safetensors tokenizer.json
                              state.json manifest.json}

No random-number state is saved: dropout, batch order and samples are functions of seed and step. No
pickle is ever read or written. Shared tensors (tied embeddings) are saved once; frozen tensors that
an adapter's base model holds, never.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.core.errors import UserError
from regard.core.files import find_damage, folder_with_manifest, write_json
from regard.core.json_records import read_record, write_record
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.models.tensor_files import read_tensors, write_tensors
from regard.training.batch_loader import Cursor
from regard.training.parallel.moments import OPTIMIZER_FILE, moment_files, open_moments

STATE_FILE = "state.json"
STATE_SCHEMA = 2
CONFIG_SCHEMA = 3
WEIGHTS_FILE = "model.safetensors"
ADAPTER_FILE = "adapter_model.safetensors"


@dataclass(frozen=True)
class TrainingState:
    """The state of a training that is not a tensor."""

    step: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    tokens: int = 0
    seconds: float = 0.0
    data_wait_seconds: float = 0.0
    "Of these seconds, those spent waiting for a batch."
    best_loss: float | None = None
    best_step: int = 0
    evaluations_since_best: int = 0
    source: str = ""
    "Hash of the training text."
    tokenizer: str = ""
    "Fingerprint of the tokenizer."
    machine: Mapping[str, Any] = field(default_factory=dict)
    "What bitwise results depend on: device, precision, threads, versions."


def save_model(
    folder: Path, model: nn.Module, tokenizer: Tokenizer, config: Mapping[str, Any]
) -> None:
    """Weights, tokenizer and config: a model folder."""
    write_tensors(model_tensors(model), folder / WEIGHTS_FILE)
    save_config_and_tokenizer(folder, tokenizer, config)


def save_config_and_tokenizer(
    folder: Path, tokenizer: Tokenizer, config: Mapping[str, Any]
) -> None:
    """A model folder without its weights."""
    tokenizer.save(folder)
    write_json(folder / "config.json", {"schema": CONFIG_SCHEMA, **config})


def load_weights(model: nn.Module, file: Path) -> None:
    """Load a model's weights from a file; a missing or unexpected name is an error."""
    load_tensors(model, read_tensors(file), where=file)


def load_tensors(model: nn.Module, tensors: Mapping[str, Tensor], *, where: Path) -> None:
    """Copy tensors into a model; names and shapes must match. `where` is the file, for errors."""
    targets = model_tensors(model)
    if targets.keys() != tensors.keys():
        unexpected = sorted(tensors.keys() - targets.keys())
        missing = sorted(targets.keys() - tensors.keys())
        raise UserError(
            f"{where} does not fit the model: not in the model {unexpected[:3]}, "
            f"not in the file {missing[:3]}",
            topic="model",
        )
    for name, target in targets.items():
        if target.shape != tensors[name].shape:
            raise UserError(
                f"{where}: {name} has shape {tuple(tensors[name].shape)}, "
                f"the model's is {tuple(target.shape)}",
                topic="model",
            )
        target.copy_(tensors[name])


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: Optimizer,
    state: TrainingState,
    *,
    tokenizer: Tokenizer,
    config: Mapping[str, Any],
) -> Path:
    path = checkpoint_path(folder, state)
    moments = moments_of(dict(model.named_parameters()), optimizer)
    check_finite(model_tensors(model), moments, state)
    with folder_with_manifest(path) as temporary:
        save_model(temporary, model, tokenizer, config)
        write_tensors(moments, temporary / OPTIMIZER_FILE)
        write_state(temporary, state)
    return path


def checkpoint_path(folder: Path, state: TrainingState) -> Path:
    return folder / f"step-{state.step:06d}"


def write_state(folder: Path, state: TrainingState) -> None:
    write_record(folder / STATE_FILE, state, schema=STATE_SCHEMA)


def check_finite(
    weights: Mapping[str, Tensor], moments: Mapping[str, Tensor], state: TrainingState
) -> None:
    """Refuse to save what is of no use."""
    if name := _find_non_finite(weights, moments):
        raise UserError(
            f"{name} is not finite after step {state.step}, so no checkpoint is written",
            topic="train",
            hint="Lower train.lr or raise train.warmup_ratio; earlier checkpoints are intact.",
        )


def load_state(path: Path) -> TrainingState:
    hint = "Delete this checkpoint: the run then resumes from the one before."
    file = path / STATE_FILE
    return read_record(file, TrainingState, schema=STATE_SCHEMA, topic="run", hint=hint)


def load_moments(
    path: Path,
    parameters: Mapping[str, nn.Parameter],
    optimizer: Optimizer,
    *,
    rows: Mapping[str, slice] | None = None,
) -> None:
    """The moments of parameters, or of a rank's `rows` of each; whoever saved them may have cut
    them otherwise."""
    with open_moments(path) as moments:
        for key in moments.names:
            name, _, moment = key.rpartition("|")
            if name not in parameters:
                continue
            tensor = moments.read(key, None if rows is None else rows[name])
            # The fused optimizer's step count too.
            optimizer.state[parameters[name]][moment] = tensor.to(parameters[name].device)


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first, including damaged ones."""
    steps = (path for path in folder.glob("step-*") if re.fullmatch(r"step-\d+", path.name))
    return sorted(steps, key=_step)


def latest_intact_checkpoint(folder: Path) -> tuple[Path | None, list[str]]:
    """The latest checkpoint that matches its manifest and whose numbers are finite, and what is
    wrong with later ones."""
    damages: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        damage = find_damage(path) or _find_non_finite_state(path)
        if damage is None:
            return path, damages
        damages.append(damage)
    return None, damages


def _find_non_finite_state(path: Path) -> str | None:
    weights = read_tensors(path / WEIGHTS_FILE)
    for file in moment_files(path):
        if name := _find_non_finite(weights, read_tensors(file)):
            return f"{path}: {name} is not finite"
    return None


def _find_non_finite(weights: Mapping[str, Tensor], moments: Mapping[str, Tensor]) -> str | None:
    """The first trained tensor, or moment of one, with a NaN or an infinity; a buffer may have."""
    for key, moment in moments.items():
        name = key.rpartition("|")[0]
        for candidate, tensor in ((name, weights.get(name)), (key, moment)):
            if tensor is not None and not tensor.isfinite().all():
                return candidate
    return None


def prune_checkpoints(folder: Path, *, latest_step: int, keep: int, best_step: int) -> None:
    """Delete all checkpoints except the last `keep` up to `latest_step` and that of `best_step`.

    Checkpoints after `latest_step` (skipped as damaged on resume) and temporary folders left by a
    killed run are deleted too.
    """
    for temporary in folder.glob(".step-*"):
        shutil.rmtree(temporary)
    up_to_latest = [path for path in list_checkpoints(folder) if _step(path) <= latest_step]
    kept = {*up_to_latest[-keep:], folder / f"step-{best_step:06d}"}
    for path in list_checkpoints(folder):
        if path not in kept:
            shutil.rmtree(path)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


@torch.no_grad()
def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model that are saved, by name: without frozen ones where the base model
    holds them; a shared tensor once, under its first name."""
    seen: set[int] = set()
    tensors = {}
    adapter_only = getattr(model, "saves_adapter_only", False)
    frozen = {
        name
        for name, parameter in model.named_parameters()
        if adapter_only and not parameter.requires_grad
    }
    for name, tensor in model.state_dict().items():
        if name in frozen:
            seen.add(tensor.data_ptr())
        elif tensor.data_ptr() not in seen or tensor.numel() == 0:
            seen.add(tensor.data_ptr())
            tensors[name] = tensor
    return tensors


def moments_of(parameters: Mapping[str, nn.Parameter], optimizer: Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}|{key}": tensor.contiguous()
        for name, parameter in parameters.items()
        for key, tensor in optimizer.state[parameter].items()
    }
