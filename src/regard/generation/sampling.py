"""Choosing the next token from its distribution: the most likely, or one drawn at random.

Drawing is by inverse distribution function from a uniform number that is given, so that what a
row draws depends on its own numbers alone. Top-k keeps the k most likely tokens; top-p then keeps
the smallest set of the most likely whose mass is at least p (nucleus sampling; Holtzman et al.,
2020). Scores are logits or log-probabilities: what is the same for all tokens of a row changes
nothing. Shapes: b rows, v vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.core.settings import Settings

FEW = 256
"Tokens that hold most of the mass nearly always: the rest is ranked where they do not."


class Greedy(Settings):
    """The most likely token, always."""

    def choose(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        """(b, v) scores to (b,) ids; the uniform numbers are not needed."""
        # On the CPU NumPy takes a fraction of the time that torch does.
        return torch.from_numpy(scores.numpy().argmax(axis=-1))


class Sampling(Settings):
    """A token drawn from the model's distribution, sharpened and cut as asked."""

    temperature: float = Field(default=1.0, gt=0)
    "Divides the logits: below 1 sharper, above 1 flatter. For the limit at 0, choose greedy."
    top_k: int = Field(default=0, ge=0)
    "Draw among the k most likely tokens; 0 for no limit."
    top_p: float = Field(default=1.0, gt=0, le=1)
    "Draw among the fewest tokens whose probabilities add up to at least this; 1 for all."

    def choose(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        """(b, v) scores and (b,) numbers in [0, 1) to (b,) ids: drawn from `distribution`, which
        is not written out where few tokens can be drawn."""
        ids = self._candidates(scores)
        if ids is None:
            return draw(self._shares(scores), uniforms)
        drawn = draw(self._shares(scores.gather(-1, ids)), uniforms)
        return ids.gather(-1, drawn[:, None]).squeeze(-1)

    def distribution(self, scores: Tensor) -> Tensor:
        """(b, v) scores to the probabilities, in double precision, that are drawn from."""
        ids = self._candidates(scores)
        if ids is None:
            return self._shares(scores)
        shares = self._shares(scores.gather(-1, ids))
        return shares.new_zeros(scores.shape).scatter_(-1, ids, shares)

    def _candidates(self, scores: Tensor) -> Tensor | None:
        """The ids that top-k leaves, (b, k), in their order; None where it leaves all."""
        return most_likely(scores, self.top_k) if 0 < self.top_k < scores.shape[-1] else None

    def _shares(self, scores: Tensor) -> Tensor:
        # The largest becomes 0 first, so that no temperature, however low, overflows.
        relative = scores.double() - scores.amax(dim=-1, keepdim=True)
        if self.temperature != 1:
            relative = relative / self.temperature
        p = torch.softmax(relative, dim=-1)
        return nucleus(p, self.top_p) if self.top_p < 1 else p


def most_likely(scores: Tensor, k: int) -> Tensor:
    """The ids (b, k) of each row's k largest scores of more than k, in the order of ids; of equals
    the lower id is taken."""
    largest, ids = scores.topk(k + 1, dim=-1)
    least, next_one = largest[:, -2:-1], largest[:, -1:]
    if bool((least > next_one).all()):
        return ids[:, :-1].sort(dim=-1).values
    # Another is as likely as the last one, and topk tells nothing of the order among equals.
    certain, tied = scores > least, scores == least
    wanting = k - certain.sum(dim=-1, keepdim=True)
    kept = certain | (tied & (tied.cumsum(dim=-1) <= wanting))
    return kept.nonzero()[:, 1].view(-1, k)


def nucleus(p: Tensor, mass: float) -> Tensor:
    """Probabilities (b, v) cut to the fewest of the most likely that hold `mass`, at least one; of
    equally likely ones the lower id comes first."""
    ranked, ids = _ranked(p, mass)
    mass_before = F.pad(ranked.cumsum(dim=-1), (1, 0))[:, :-1]
    ranked = torch.where(mass_before < mass, ranked, 0)
    ranked = ranked / ranked.sum(dim=-1, keepdim=True)
    return torch.zeros_like(p).scatter_(-1, ids, ranked)


def _ranked(p: Tensor, mass: float) -> tuple[Tensor, Tensor]:
    """The most likely tokens of each row, their shares and ids, as many as hold `mass` or more."""
    if p.shape[-1] > FEW:
        ids = most_likely(p, FEW)
        held, order = p.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
        held = held / p.sum(dim=-1, keepdim=True)
        if bool((held.cumsum(dim=-1)[:, -1] >= mass).all()):
            return held, ids.gather(-1, order)
    ranked, ids = p.sort(dim=-1, descending=True, stable=True)
    return ranked / ranked.sum(dim=-1, keepdim=True), ids


def draw(p: Tensor, uniforms: Tensor) -> Tensor:
    """The id (b,) at which each row's cumulative probability first exceeds its uniform number."""
    cumulative = p.cumsum(dim=-1)
    total = cumulative[:, -1:]
    # Rounding may lift u · total to the total itself, behind the last token that can be drawn.
    target = torch.minimum(uniforms[:, None] * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1)
