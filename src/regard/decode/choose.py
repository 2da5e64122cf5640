"""Choosing the next token from its distribution: the most likely, or one drawn at random.

Drawing is by inverse distribution function from a uniform number that is given, so that what a
row draws depends on its own numbers alone. Top-k keeps the k most likely tokens; top-p then keeps
the smallest set of the most likely whose mass is at least p (nucleus sampling; Holtzman et al.,
2020). Shapes: b rows, v vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.settings import Settings


class Greedy(Settings):
    """The most likely token, always."""

    def choose(self, logprobs: Tensor, uniforms: Tensor) -> Tensor:
        """(b, v) log-probabilities to (b,) ids; the uniform numbers are not needed."""
        return logprobs.argmax(dim=-1)


class Sample(Settings):
    """A token drawn from the model's distribution, sharpened and cut as asked."""

    temperature: float = Field(default=1.0, gt=0)
    "Divides the logits: below 1 sharper, above 1 flatter. For the limit at 0, choose greedy."
    top_k: int = Field(default=0, ge=0)
    "Draw among the k most likely tokens; 0 for no limit."
    top_p: float = Field(default=1.0, gt=0, le=1)
    "Draw among the fewest tokens whose probabilities add up to at least this; 1 for all."

    def choose(self, logprobs: Tensor, uniforms: Tensor) -> Tensor:
        """(b, v) log-probabilities and (b,) numbers in [0, 1) to (b,) ids."""
        return draw(self.distribution(logprobs), uniforms)

    def distribution(self, logprobs: Tensor) -> Tensor:
        """(b, v) log-probabilities to the probabilities, in double precision, drawn from."""
        # The largest becomes 0 first, so that no temperature, however low, overflows.
        relative = logprobs.double() - logprobs.amax(dim=-1, keepdim=True)
        p = torch.softmax(relative / self.temperature, dim=-1)
        if self.top_k or self.top_p < 1:
            p = keep_top(p, k=self.top_k or p.shape[-1], mass=self.top_p)
        return p


def keep_top(p: Tensor, *, k: int, mass: float) -> Tensor:
    """Probabilities (b, v) cut to the k most likely, then to the fewest with `mass` of the rest.

    At least one token is kept; of equally likely ones the lower id comes first."""
    ranked, ids = p.sort(dim=-1, descending=True, stable=True)
    ranked[:, k:] = 0
    ranked = ranked / ranked.sum(dim=-1, keepdim=True)
    mass_before = F.pad(ranked.cumsum(dim=-1), (1, 0))[:, :-1]
    ranked = torch.where(mass_before < mass, ranked, 0)
    kept = torch.zeros_like(p).scatter(-1, ids, ranked)
    return kept / kept.sum(dim=-1, keepdim=True)


def draw(p: Tensor, uniforms: Tensor) -> Tensor:
    """The id (b,) at which each row's cumulative probability first exceeds its uniform number."""
    cumulative = p.cumsum(dim=-1)
    total = cumulative[:, -1:]
    # Rounding may lift u · total to the total itself, behind the last token that can be drawn.
    target = torch.minimum(uniforms[:, None] * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1)
