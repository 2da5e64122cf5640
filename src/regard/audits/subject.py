"""What an audit needs to know of a model, regard's or not.

Every callable takes the module as its first argument, so that an audit can run a copy, also one in
float64, and leave the model itself as it was. Shapes: b batch, t places, w width of a token vector,
f numbers a place. `valid` (b,t) is True where a place holds a token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import UserError

Run = Callable[[Any, Tensor, Tensor | None], Any]
RunCached = Callable[[Any, Tensor, Sequence[int]], Any]
RunWithWeights = Callable[[Any, Tensor], Any]

FIELDS = ("logits", "last_hidden_state", "prediction_logits", "out")


@dataclass(frozen=True)
class Subject:
    """A model as an audit sees it; what comes out of a run may be anything `rows_of` reads."""

    name: str
    run: Run
    "(module, ids (b,t) or vectors (b,t,w), valid (b,t) or None) -> outputs, one row a place."
    module: nn.Module | None = None
    trained: nn.Module | None = None
    "What is trained, where `module` is a part of it: the head of a task stands on that."
    vocabulary: int = 0
    "Ids are 0 … vocabulary − 1; 0 where the inputs are vectors."
    width: int = 0
    "Of the token vectors, where the inputs are vectors."
    longest: int | None = None
    "Most places it takes; None where unknown."
    embedding: str = ""
    "The submodule that gives the token vectors (b,t,w), by its dotted name, for gradients."
    takes_valid: bool = False
    run_cached: RunCached | None = None
    "(module, ids, cuts) -> outputs of all places; reads the ids piece by piece through a cache."
    run_with_weights: RunWithWeights | None = None
    "(module, ids) -> the same outputs, with attention weights requested."
    sample: Tensor | None = None
    "Inputs the person gave; its length is known to work."

    def __post_init__(self) -> None:
        if self.vocabulary < 2 and self.width < 1:
            raise UserError(
                "its vocabulary is not known",
                topic="audit",
                where=self.name,
                hint="Give a sample: token ids (b,t), or vectors (b,t,w) where it reads vectors.",
            )

    @property
    def device(self) -> torch.device:
        if self.module is not None:
            for parameter in self.module.parameters():
                return parameter.device
        return torch.device("cpu") if self.sample is None else self.sample.device

    def takes(self, places: int) -> bool:
        """Whether a row may be so long, as far as is known."""
        return 0 < places <= (self.longest or places)

    def cost_of_place(self, outputs: int) -> float:
        """Roughly the operations one place takes forward; `outputs` numbers come out."""
        count = 100_000
        if self.module is not None:
            count = sum(parameter.numel() for parameter in self.module.parameters())
        return 2.0 * count + 40.0 * outputs  # comparing outputs costs too

    def draw(self, rows: int, places: int, generator: torch.Generator) -> Tensor:
        """Random inputs: ids (b,t), or vectors (b,t,w) of the sample's size."""
        if self.vocabulary:
            drawn = torch.randint(self.vocabulary, (rows, places), generator=generator)
        else:
            drawn = torch.randn(rows, places, self.width, generator=generator) * self._size()
            drawn = drawn if self.sample is None else drawn.to(self.sample.dtype)
        return drawn.to(self.device)

    def draw_other(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """Other inputs of the same shape: at no place the same id or vector."""
        if not self.vocabulary:
            return self.draw(inputs.shape[0], inputs.shape[1], generator).to(inputs.dtype)
        step = torch.randint(1, self.vocabulary, inputs.shape, generator=generator)
        return (inputs + step.to(inputs.device)) % self.vocabulary

    def _size(self) -> float:
        if self.sample is None:
            return 1.0
        return float(self.sample.float().square().mean().sqrt()) or 1.0


def rows_of(output: Any, *, batch: int, places: int, name: str) -> Tensor:
    """The numbers at each place, (b,t,f), from a tensor, a tuple, a mapping or an output object."""
    found = _tensor_in(output)
    if found is None:
        what = f"gave a {type(output).__name__} without a tensor of outputs"
    elif found.dim() < 2 or tuple(found.shape[:2]) != (batch, places):
        what = f"gave outputs of shape {tuple(found.shape)} for {batch} rows of {places} places"
    else:
        rows = found.unsqueeze(-1) if found.dim() == 2 else found.flatten(2)
        if rows.is_complex():
            rows = torch.view_as_real(rows).flatten(2)
        return rows if rows.is_floating_point() else rows.double()
    raise UserError(
        what,
        topic="audit",
        where=name,
        hint="An audit needs one row of numbers at each place, (b,t,…), batch first: wrap the "
        "model in a function that gives them.",
    )


def _tensor_in(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    for field in FIELDS:
        held = output.get(field) if isinstance(output, Mapping) else getattr(output, field, None)
        if isinstance(held, Tensor):
            return held
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, tuple | list):
        return next((part for part in output if isinstance(part, Tensor)), None)
    return None
