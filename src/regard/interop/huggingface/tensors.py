"""From another tool's tensors to a model of ours and back, by the places of an architecture.

Nothing is left unsaid: what a file holds and nothing uses, and what the model has and nothing
filled. A file without its token table or without one of its blocks is refused: such a model would
be a random one under a pretrained name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.interop.huggingface.architecture import Architecture, TensorMapping, joined
from regard.interop.huggingface.checkpoint import Tensors
from regard.models.families.transformer import Transformer


@dataclass(frozen=True)
class FillReport:
    """What was left over, on both sides."""

    unused: list[str]
    "Names in the file."
    unfilled: list[str]
    "Names of ours."


def bare_names(architecture: Architecture, tensors: Tensors) -> dict[str, str]:
    """What the file holds: bare name, name in the file."""
    held: dict[str, str] = {}
    for name in tensors.names():
        held.setdefault(architecture.bare_name(name), name)
    return held


@torch.no_grad()
def fill(
    model: nn.Module, architecture: Architecture, *, family: Transformer, tensors: Tensors
) -> FillReport:
    """Copy every tensor to its place."""
    held, tensor_map = bare_names(architecture, tensors), architecture.tensor_map(family)
    copies = architecture.copies(family)
    _stand_in(copies, held)
    used, unfilled = set(), []
    for name, parameter in model.named_parameters():
        place = tensor_map.get(name)
        if place is None or place.name not in held:
            unfilled.append(name)
            continue
        theirs = held[place.name]
        _check_shape(theirs, place, tensors, ours=tuple(parameter.shape))
        parameter.copy_(place.taken(_read(tensors, theirs)))
        used.add(theirs)
    _check_whole(unfilled, model, tensors)
    used |= {held[copy] for copy in _true_copies(copies, held, tensors)}
    return FillReport(sorted(set(tensors.names()) - used), unfilled)


@torch.no_grad()
def gathered(
    model: nn.Module, architecture: Architecture, *, family: Transformer
) -> dict[str, Tensor]:
    """The model's tensors by the names of the other tool's file."""
    own = dict(model.named_parameters())
    parts: dict[str, list[tuple[TensorMapping, Tensor]]] = {}
    for name, place in architecture.tensor_map(family).items():
        tensor = own[name].detach().to("cpu", torch.float32)
        parts.setdefault(place.name, []).append((place, tensor))
    tensors = {name: joined(found) for name, found in parts.items()}
    for copy, original in architecture.copies(family).items():
        # Where a bias has two names, transformers draws anew the one that is not there.
        if tensors[original].ndim == 1:
            tensors[copy] = tensors[original]
    return {architecture.full_name(name): tensor.clone() for name, tensor in tensors.items()}


def _stand_in(copies: Mapping[str, str], held: dict[str, str]) -> None:
    """Of a shared tensor a file may hold the copy alone: it then stands for the original."""
    for copy, original in copies.items():
        if copy in held and original not in held:
            held[original] = held[copy]


def _check_shape(
    name: str, place: TensorMapping, tensors: Tensors, *, ours: tuple[int, ...]
) -> None:
    found, expected = tensors.shape(name), place.shape_there(ours)
    if found != expected:
        raise UserError(
            f"{name} has shape {found}, its config asks for {expected}",
            topic="import",
            where=tensors.where,
            hint="File and config.json are of different models: get both anew.",
        )


def _read(tensors: Tensors, name: str) -> Tensor:
    tensor = tensors.read(name)
    if not tensor.is_floating_point():
        raise UserError(
            f"{name} holds {tensor.dtype}, not weights: they are packed in a form that regard "
            "does not read",
            topic="import",
            where=tensors.where,
            hint="Give the checkpoint as it was before it was packed, or a .gguf file.",
        )
    whole = tensor.float()
    if not bool(whole.isfinite().all()):
        raise UserError(
            f"{name} holds numbers that are none (NaN or infinite)",
            topic="import",
            where=tensors.where,
            hint="The file is damaged, or its training had failed: get it anew.",
        )
    return whole


def _check_whole(unfilled: list[str], model: nn.Module, tensors: Tensors) -> None:
    """No table of tokens and no block may be left as it was drawn."""
    absent = set(unfilled)
    wanting = ["embedding.tokens.weight"] if "embedding.tokens.weight" in absent else []
    blocks: dict[str, list[bool]] = {}
    for name, _ in model.named_parameters():
        if block := re.match(r"stack\.blocks\.\d+", name):
            blocks.setdefault(block[0], []).append(name in absent)
    wanting += [block for block, missing in blocks.items() if all(missing)]
    if wanting:
        raise UserError(
            f"nothing in it fills {', '.join(wanting[:3])}{' …' if len(wanting) > 3 else ''}",
            topic="import",
            where=tensors.where,
            hint="File and config.json are of different models, or a part is missing: "
            "get both anew.",
        )


def _true_copies(copies: Mapping[str, str], held: Mapping[str, str], tensors: Tensors) -> list[str]:
    """Those that repeat bit for bit what is shared here."""
    return [
        copy
        for copy, original in copies.items()
        if copy in held
        and original in held
        and torch.equal(tensors.read(held[copy]), tensors.read(held[original]))
    ]
