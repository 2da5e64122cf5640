"""Head ablation: single attention heads switched off, to see what they did.

    out = [a_1 … a_H] W_o        head h off: a_h = 0        Michel et al., 2019

Zero ablation: the head adds nothing to the residual stream, at any position. Names are those of
`AttentionRecorder`. Shapes: w model width, the heads side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.mixer import Mixer
from regard.core.errors import UserError, did_you_mean
from regard.models.blocks.block import Block
from regard.models.model import Model


class Head(NamedTuple):
    """A head of an attention layer."""

    layer: str
    "`block.0.attention`, `decoder.block.1.cross_attention`, …"
    number: int
    "From 0."


def attention_layers(model: Model) -> Mapping[str, int]:
    """The number of heads of each attention layer that has heads to switch off, in the order of
    the forward pass."""
    return {name: _heads(mixer) for name, mixer in _mixers(model) if _heads(mixer)}


@contextmanager
def ablate_heads(model: Model, heads: Collection[Head]) -> Iterator[None]:
    """These heads are off inside; afterwards the model is as it was."""
    counts, mixers = attention_layers(model), dict(_mixers(model))
    for head in heads:
        _check(head, counts)
    hooks = []
    try:
        for name in {head.layer for head in heads}:
            off = sorted(head.number for head in heads if head.layer == name)
            layer = mixers[name].out
            assert isinstance(layer, nn.Module)
            hooks.append(layer.register_forward_pre_hook(_without(off, counts[name])))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _without(off: list[int], heads: int) -> Callable[[nn.Module, tuple[Tensor]], tuple[Tensor]]:
    """What the output projection reads, with zeros from the heads that are off."""

    def hook(layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        by_head = inputs[0].view(*inputs[0].shape[:-1], heads, -1)
        index = torch.tensor(off, device=by_head.device)
        return (by_head.index_fill(-2, index, 0.0).flatten(-2),)

    return hook


def _mixers(model: Model) -> Iterator[tuple[str, Mixer]]:
    body = model.body
    for stack_name, stack in body.stacks.items():
        prefix = "" if len(body.stacks) == 1 else f"{stack_name}."
        for number, block in enumerate(stack.blocks):
            assert isinstance(block, Block)
            yield f"{prefix}block.{number}.attention", block.attention
            if block.cross_attention is not None:
                yield f"{prefix}block.{number}.cross_attention", block.cross_attention
    if isinstance(alone := getattr(body, "attention", None), Mixer):
        yield "attention", alone


def _heads(mixer: Mixer) -> int:
    """0 for a mixer whose heads do not meet in an output projection."""
    shape = getattr(mixer, "shape", None)
    return int(getattr(shape, "heads", 0)) if isinstance(getattr(mixer, "out", 0), nn.Module) else 0


def _check(head: Head, counts: Mapping[str, int]) -> None:
    if head.layer not in counts:
        hint = f"Its attention layers are {', '.join(counts)}." if counts else ""
        raise UserError(
            f"this model has no heads at {head.layer!r}{did_you_mean(head.layer, counts)}",
            topic="inspect",
            hint=hint,
        )
    if not 0 <= head.number < counts[head.layer]:
        raise UserError(
            f"{head.layer} has no head {head.number}",
            topic="inspect",
            hint=f"Its heads are 0 to {counts[head.layer] - 1}.",
        )
