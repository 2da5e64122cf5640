"""Random draws of a forward pass: whether inputs decide how many, and passes without any.

Dropout inside an expert draws for as many tokens as were routed there. Two rows then differ in
their noise wherever they differ in routing: a seed does not repeat it, and no influence can be told
from it. Such passes are compared with constants in place of all draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

DROPOUT = "aten::native_dropout"
CONSTANTS = {
    **dict.fromkeys(("aten::bernoulli", "aten::bernoulli_"), 1.0),
    **dict.fromkeys(("aten::rand", "aten::rand_like", "aten::uniform", "aten::uniform_"), 0.5),
    **dict.fromkeys(("aten::randn", "aten::randn_like", "aten::normal", "aten::normal_"), 0.5),
    **dict.fromkeys(("aten::exponential", "aten::exponential_"), 0.5),
}
"What stands for each draw: dropout then keeps everything."

Draws = list[tuple[str, int]]
"Name of each operation that draws, and how many numbers it gave."


@dataclass
class DrawLog:
    """The draws of several passes, with the shapes of their inputs."""

    passes: list[tuple[tuple[int, ...], Draws]] = field(default_factory=list)

    def recorded(self, inputs: Tensor) -> TorchDispatchMode:
        """Within: the draws of one pass are added."""
        draws: Draws = []
        self.passes.append((tuple(inputs.shape), draws))
        return _DrawMode(draws, constant=False)

    @property
    def varies(self) -> bool:
        """Whether passes over inputs of one shape drew other numbers of numbers."""
        first: dict[tuple[int, ...], Draws] = {}
        return any(first.setdefault(shape, draws) != draws for shape, draws in self.passes)


def why_noiseless(mode: str) -> str:
    return (
        f"{mode}, with its noise: inputs decide how many random numbers it draws, so constants "
        "stood for them"
    )


def without_noise() -> TorchDispatchMode:
    """Within: every draw is a constant."""
    return _DrawMode([], constant=True)


class _DrawMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, draws: Draws, *, constant: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws, self.constant = draws, constant

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Skipping would import the compiler, which takes longer than a small audit.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func._schema.name
        if name == DROPOUT and self.constant:
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        output = func(*args, **(kwargs or {}))
        if name == DROPOUT or name in CONSTANTS:
            drawn = output[0] if name == DROPOUT else output
            self.draws.append((name, drawn.numel()))
            if self.constant:
                drawn.fill_(CONSTANTS[name])
        return output
