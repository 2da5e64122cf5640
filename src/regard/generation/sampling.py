"""Next-token selection: greedy, or sampling with temperature, top-k and top-p (nucleus).

Sampling inverts the cumulative distribution at a given uniform number, so a row's draws depend on
its own numbers alone. Top-k keeps the k most likely tokens; top-p then keeps the smallest set of
the most likely tokens whose probabilities sum to at least p (nucleus sampling; Holtzman et al.,
2020). Inputs are logits or log-probabilities: a constant added to a row changes nothing.
Shapes: b rows, v vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.core.settings import Settings

NUCLEUS_CANDIDATES = 256
"Tokens that nearly always contain the nucleus; the whole row is sorted only if they do not."


class Greedy(Settings):
    """The most likely token, always."""

    def choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """(b, v) logits to (b,) ids; the uniform numbers are not used."""
        # On the CPU NumPy's argmax takes a fraction of the time of torch's.
        return torch.from_numpy(logits.numpy().argmax(axis=-1))


class Sampling(Settings):
    """A token drawn from the model's distribution, with temperature, top-k and top-p."""

    temperature: float = Field(default=1.0, gt=0)
    "Divides the logits: below 1 sharper, above 1 flatter. For the limit at 0, choose greedy."
    top_k: int = Field(default=0, ge=0)
    "Draw among the k most likely tokens; 0 for no limit."
    top_p: float = Field(default=1.0, gt=0, le=1)
    "Draw among the fewest tokens whose probabilities add up to at least this; 1 for all."

    def choose(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """(b, v) logits and (b,) numbers in [0, 1) to (b,) ids: drawn from `distribution`, which
        is computed over the top k alone."""
        ids = self._top_k_ids(logits)
        if ids is None:
            return draw(self._probabilities(logits), uniforms)
        drawn = draw(self._probabilities(logits.gather(-1, ids)), uniforms)
        return ids.gather(-1, drawn[:, None]).squeeze(-1)

    def distribution(self, logits: Tensor) -> Tensor:
        """(b, v) logits to the probabilities to draw from, in double precision."""
        ids = self._top_k_ids(logits)
        if ids is None:
            return self._probabilities(logits)
        p = self._probabilities(logits.gather(-1, ids))
        return p.new_zeros(logits.shape).scatter_(-1, ids, p)

    def _top_k_ids(self, logits: Tensor) -> Tensor | None:
        """The ids that top-k keeps, (b, k), in ascending order; None if it keeps all."""
        return top_k_ids(logits, self.top_k) if 0 < self.top_k < logits.shape[-1] else None

    def _probabilities(self, logits: Tensor) -> Tensor:
        # The maximum is subtracted first, so that no temperature, however low, overflows.
        relative = logits.double() - logits.amax(dim=-1, keepdim=True)
        if self.temperature != 1:
            relative = relative / self.temperature
        p = torch.softmax(relative, dim=-1)
        return nucleus(p, self.top_p) if self.top_p < 1 else p


def top_k_ids(scores: Tensor, k: int) -> Tensor:
    """The ids (b, k) of each row's k largest scores of more than k, in ascending order; ties go to
    the lower id."""
    largest, ids = scores.topk(k + 1, dim=-1)
    kth, next_largest = largest[:, -2:-1], largest[:, -1:]
    if bool((kth > next_largest).all()):
        return ids[:, :-1].sort(dim=-1).values
    # The k-th largest is tied, and topk does not define the order among ties.
    above, tied = scores > kth, scores == kth
    remaining = k - above.sum(dim=-1, keepdim=True)
    kept = above | (tied & (tied.cumsum(dim=-1) <= remaining))
    return kept.nonzero()[:, 1].view(-1, k)


def nucleus(p: Tensor, top_p: float) -> Tensor:
    """Probabilities (b, v) cut to the fewest of the most likely that sum to `top_p`, at least one,
    and renormalised; among ties the lower id comes first."""
    ranked, ids = _rank(p, top_p)
    sum_before = F.pad(ranked.cumsum(dim=-1), (1, 0))[:, :-1]
    ranked = torch.where(sum_before < top_p, ranked, 0)
    ranked = ranked / ranked.sum(dim=-1, keepdim=True)
    return torch.zeros_like(p).scatter_(-1, ids, ranked)


def _rank(p: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """Probabilities and ids of each row's most likely tokens, descending, enough to sum to
    `top_p`."""
    if p.shape[-1] > NUCLEUS_CANDIDATES:
        ids = top_k_ids(p, NUCLEUS_CANDIDATES)
        ranked, order = p.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
        ranked = ranked / p.sum(dim=-1, keepdim=True)
        if bool((ranked.cumsum(dim=-1)[:, -1] >= top_p).all()):
            return ranked, ids.gather(-1, order)
    ranked, ids = p.sort(dim=-1, descending=True, stable=True)
    return ranked / ranked.sum(dim=-1, keepdim=True), ids


def draw(p: Tensor, uniforms: Tensor) -> Tensor:
    """The id (b,) at which each row's cumulative probability first exceeds its uniform number."""
    cumulative = p.cumsum(dim=-1)
    total = cumulative[:, -1:]
    # Rounding may lift u · total to the total itself, past the last token with any probability.
    target = torch.minimum(uniforms[:, None] * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1)
