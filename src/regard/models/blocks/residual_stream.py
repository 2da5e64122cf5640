"""The residual stream of a stack: the hidden states before its first block and after each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from regard.models.blocks.stack import Stack


@contextmanager
def record_residual_stream(stack: Stack) -> Iterator[list[Tensor]]:
    """A list that one forward pass inside fills: (b,t,w) of the embedding, then of each block."""
    states: list[Tensor] = []

    def before(block: nn.Module, inputs: tuple[Any, ...]) -> None:
        states.append(inputs[0])

    def after(block: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        states.append(output)

    hooks = [stack.blocks[0].register_forward_pre_hook(before)]
    hooks += [block.register_forward_hook(after) for block in stack.blocks]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()
