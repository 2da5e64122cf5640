"""Copy tensors from a checkpoint into a model and back, by the tensor map of an architecture.

The report lists unused tensors of the file and unfilled parameters of the model. A file without
the token embedding or without a whole block is refused: it would give a random model under a
pretrained name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.interop.huggingface.architecture import Architecture, TensorMapping, merge_tensors
from regard.interop.huggingface.checkpoint import Checkpoint
from regard.models.families.transformer import Transformer


@dataclass(frozen=True)
class FillReport:
    """Tensors and parameters without a counterpart."""

    unused: list[str]
    "Tensors of the file that the model does not use."
    unfilled: list[str]
    "Parameters of the model that the file does not fill."


def bare_names(architecture: Architecture, checkpoint: Checkpoint) -> dict[str, str]:
    """Bare name → name in the file, for each tensor of a checkpoint."""
    names: dict[str, str] = {}
    for name in checkpoint.tensors:
        names.setdefault(architecture.bare_name(name), name)
    return names


@torch.no_grad()
def fill_model(
    model: nn.Module, architecture: Architecture, *, family: Transformer, checkpoint: Checkpoint
) -> FillReport:
    """Copy every tensor of the checkpoint into its parameter."""
    names, tensor_map = bare_names(architecture, checkpoint), architecture.tensor_map(family)
    aliases = architecture.aliases(family)
    _use_aliases(aliases, names)
    used, unfilled = set(), []
    for name, parameter in model.named_parameters():
        mapping = tensor_map.get(name)
        if mapping is None or mapping.name not in names:
            unfilled.append(name)
            continue
        theirs = names[mapping.name]
        _check_shape(theirs, mapping, checkpoint, ours=tuple(parameter.shape))
        parameter.copy_(mapping.extract(read_tensor(checkpoint, theirs)))
        used.add(theirs)
    _check_complete(unfilled, model, checkpoint)
    used |= {names[copy] for copy in _identical_aliases(aliases, names, checkpoint)}
    return FillReport(sorted(checkpoint.tensors.keys() - used), unfilled)


@torch.no_grad()
def export_tensors(
    model: nn.Module, architecture: Architecture, *, family: Transformer
) -> dict[str, Tensor]:
    """The model's tensors under their names in the checkpoint, in float32 on the CPU."""
    parameters = dict(model.named_parameters())
    chunks: dict[str, list[tuple[TensorMapping, Tensor]]] = {}
    for name, mapping in architecture.tensor_map(family).items():
        tensor = parameters[name].detach().to("cpu", torch.float32)
        chunks.setdefault(mapping.name, []).append((mapping, tensor))
    tensors = {name: merge_tensors(group) for name, group in chunks.items()}
    for copy, original in architecture.aliases(family).items():
        # If a bias has two names, transformers re-initialises the one that the file lacks.
        if tensors[original].ndim == 1:
            tensors[copy] = tensors[original]
    return {architecture.full_name(name): tensor.clone() for name, tensor in tensors.items()}


def _use_aliases(aliases: Mapping[str, str], names: dict[str, str]) -> None:
    """A file may contain a shared tensor under its second name only: use that one."""
    for copy, original in aliases.items():
        if copy in names and original not in names:
            names[original] = names[copy]


def _check_shape(
    name: str, mapping: TensorMapping, checkpoint: Checkpoint, *, ours: tuple[int, ...]
) -> None:
    found, expected = checkpoint.tensors[name].shape, mapping.checkpoint_shape(ours)
    if found != expected:
        raise UserError(
            f"{name} has shape {found}, its config implies {expected}",
            topic="import",
            where=checkpoint.where,
            hint="Weights and config.json belong to different models: download both again.",
        )


def read_tensor(checkpoint: Checkpoint, name: str) -> Tensor:
    """A tensor in float32; a quantized or damaged one is refused."""
    tensor = checkpoint.tensors[name].read()
    if not tensor.is_floating_point():
        raise UserError(
            f"{name} has dtype {tensor.dtype}: its weights are quantized in a format that regard "
            "does not read",
            topic="import",
            where=checkpoint.where,
            hint="Give the unquantized checkpoint, or a .gguf file.",
        )
    values = tensor.float()
    if not bool(values.isfinite().all()):
        raise UserError(
            f"{name} has NaN or infinite values",
            topic="import",
            where=checkpoint.where,
            hint="The file is damaged, or its training diverged: download it again.",
        )
    return values


def _check_complete(unfilled: list[str], model: nn.Module, checkpoint: Checkpoint) -> None:
    """Neither the token embedding nor a whole block may keep its random initial values."""
    absent = set(unfilled)
    random = ["embedding.tokens.weight"] if "embedding.tokens.weight" in absent else []
    blocks: dict[str, list[bool]] = {}
    for name, _ in model.named_parameters():
        if block := re.match(r"stack\.blocks\.\d+", name):
            blocks.setdefault(block[0], []).append(name in absent)
    random += [block for block, missing in blocks.items() if all(missing)]
    if random:
        raise UserError(
            f"it has no tensors for {', '.join(random[:3])}{' …' if len(random) > 3 else ''}",
            topic="import",
            where=checkpoint.where,
            hint="Weights and config.json belong to different models, or a file is missing: "
            "download both again.",
        )


def _identical_aliases(
    aliases: Mapping[str, str], names: Mapping[str, str], checkpoint: Checkpoint
) -> list[str]:
    """The second names whose tensor equals the original bit for bit."""
    tensors = checkpoint.tensors
    return [
        copy
        for copy, original in aliases.items()
        if copy in names
        and original in names
        and torch.equal(tensors[names[copy]].read(), tensors[names[original]].read())
    ]
