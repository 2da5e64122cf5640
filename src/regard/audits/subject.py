"""The interface an audit needs of a model, regard's own or foreign.

Every callable takes the module as its first argument, so an audit can run a copy, also in float64,
and leave the model itself unchanged. Shapes: b batch, t positions, w embedding width, f output
features per position. `valid` (b,t) is the padding mask: True where a position holds a token.
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
RunWithArguments = Callable[[Any, Tensor, Mapping[str, Tensor]], Any]

OUTPUT_FIELDS = ("logits", "last_hidden_state", "prediction_logits", "out")


@dataclass(frozen=True)
class Subject:
    """The model under audit; a run may return anything that `position_outputs` understands."""

    name: str
    run: Run
    "(module, ids (b,t) or embeddings (b,t,w), valid (b,t) or None) -> outputs at each position."
    module: nn.Module | None = None
    trained_module: nn.Module | None = None
    "The module that is trained, where `module` is only its body, below a task head."
    vocabulary: int = 0
    "Ids are 0 … vocabulary − 1; 0 where the inputs are embeddings."
    width: int = 0
    "Of the embeddings, where the inputs are embeddings."
    max_length: int | None = None
    "Maximum input length in positions; None where unknown."
    embedding: str = ""
    "Dotted name of the submodule that returns the token embeddings (b,t,w), for gradients."
    accepts_padding_mask: bool = False
    visibility: str | None = None
    "The mask, by name, that the model declares."
    run_cached: RunCached | None = None
    "(module, ids, cuts) -> outputs of all positions; runs the chunks between cuts with a KV cache."
    run_with_weights: RunWithWeights | None = None
    "(module, ids) -> the same outputs, with attention weights requested."
    arguments: tuple[str, ...] = ()
    "Those of `arguments.py` that the model takes and runs with."
    refused_arguments: tuple[str, ...] = ()
    "Each that it takes and did not run with, and why."
    untested: tuple[str, ...] = ()
    "What else the model takes or returns, a sentence each."
    run_with_arguments: RunWithArguments | None = None
    "(module, ids, arguments by name) -> the same outputs."
    sample: Tensor | None = None
    "Inputs given by the user; their length is known to work."
    special_ids: tuple[int, ...] = ()
    "Ids with a meaning of their own: separators, padding, start and end of a text."
    text: Tensor | None = None
    "(t,): ids of real text."

    def __post_init__(self) -> None:
        if self.vocabulary < 2 and self.width < 1:
            raise UserError(
                "its vocabulary is not known",
                topic="audit",
                where=self.name,
                hint="Give a sample: token ids (b,t), or embeddings (b,t,w) where it takes those.",
            )

    @property
    def device(self) -> torch.device:
        if self.module is not None:
            for parameter in self.module.parameters():
                return parameter.device
        return torch.device("cpu") if self.sample is None else self.sample.device

    def accepts_length(self, length: int) -> bool:
        """Whether inputs may be this long, as far as is known."""
        return 0 < length <= (self.max_length or length)

    def flops_per_position(self, outputs: int) -> float:
        """Rough cost of one position in a forward pass that returns `outputs` values for it."""
        count = 100_000
        if self.module is not None:
            count = sum(parameter.numel() for parameter in self.module.parameters())
        return 2.0 * count + 40.0 * outputs  # comparing outputs costs too

    def draw(self, rows: int, length: int, generator: torch.Generator) -> Tensor:
        """Random inputs: ids (b,t), or embeddings (b,t,w) with the sample's RMS."""
        if self.vocabulary:
            drawn = torch.randint(self.vocabulary, (rows, length), generator=generator)
        else:
            drawn = torch.randn(rows, length, self.width, generator=generator) * self._rms()
            drawn = drawn if self.sample is None else drawn.to(self.sample.dtype)
        return drawn.to(self.device)

    def draw_other(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """Random inputs of the same shape that differ from `inputs` at every position."""
        if not self.vocabulary:
            return self.draw(inputs.shape[0], inputs.shape[1], generator).to(inputs.dtype)
        step = torch.randint(1, self.vocabulary, inputs.shape, generator=generator)
        return (inputs + step.to(inputs.device)) % self.vocabulary

    def _rms(self) -> float:
        if self.sample is None:
            return 1.0
        return float(self.sample.float().square().mean().sqrt()) or 1.0


def position_outputs(output: Any, *, batch: int, length: int, name: str) -> Tensor:
    """Outputs at each position, (b,t,f), from a tensor, a tuple, a mapping or an output object."""
    tensors = output_tensors(output)
    found = next((one for one in tensors if one.shape[:2] == (batch, length)), None)
    found = next(iter(tensors), None) if found is None else found
    if found is None:
        what = f"returned a {type(output).__name__} without a tensor of outputs"
    elif found.dim() < 2 or tuple(found.shape[:2]) != (batch, length):
        what = f"returned outputs of shape {tuple(found.shape)} for inputs ({batch}, {length})"
    else:
        outputs = found.unsqueeze(-1) if found.dim() == 2 else found.flatten(2)
        if outputs.is_complex():
            outputs = torch.view_as_real(outputs).flatten(2)
        return outputs if outputs.is_floating_point() else outputs.double()
    raise UserError(
        what,
        topic="audit",
        where=name,
        hint="An audit needs outputs at each position, (b,t,…), batch first: wrap the model in a "
        "module that returns them.",
    )


def output_tensors(output: Any) -> list[Tensor]:
    """The tensor of outputs, or those that it may be, the likeliest first."""
    if isinstance(output, Tensor):
        return [output]
    for field in OUTPUT_FIELDS:
        value = output.get(field) if isinstance(output, Mapping) else getattr(output, field, None)
        if isinstance(value, Tensor):
            return [value]
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, tuple | list):
        return [value for value in output if isinstance(value, Tensor)]
    return []
