"""Random models that are clean by construction, made of many different parts.

They differ in what an audit could mistake for a leak: kernels that round by shape, sums in another
order, FFTs, large weights, dropout, masks that are multiplied instead of subtracted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tests.audits.toy_models import (
    Parts,
    Place,
    Toy,
    bare,
    causal,
    masked_softmax,
    scaled,
    subject_around,
)
from torch import Tensor, nn

from regard.audits.subject import Subject


@dataclass(frozen=True)
class Clean:
    """A model and the mask it keeps to."""

    subject: Subject
    mask: str
    described: str


def renormalised(scores: Tensor, allowed: Tensor) -> Tensor:
    """Masked after the softmax, then divided by what is left: the same as before it."""
    weights = (scores - scores.detach().masked_fill(~allowed, -math.inf).amax(-1, True)).exp()
    weights = weights.masked_fill(~allowed, 0.0)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)


def linear(scores: Tensor, allowed: Tensor) -> Tensor:
    """Positive weights without a softmax."""
    weights = (F.elu(scores) + 1) * allowed
    return weights / (weights.sum(dim=-1, keepdim=True) + 1e-6)


def argmax(scores: Tensor, allowed: Tensor) -> Tensor:
    best = scores.masked_fill(~allowed, -math.inf).argmax(dim=-1)
    return F.one_hot(best, scores.shape[-1]).to(scores.dtype)


def in_float32(scores: Tensor, allowed: Tensor) -> Tensor:
    """The cast that many models make for stability."""
    return masked_softmax(scores.float(), allowed).to(scores.dtype)


def slanted(q: Tensor, k: Tensor) -> Tensor:
    """A bias by distance (ALiBi)."""
    i = torch.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
    return scaled(q, k) + 0.2 * (torch.arange(k.shape[2])[None] - i)


def additive(q: Tensor, k: Tensor) -> Tensor:
    return torch.tanh(q[:, :, :, None] + k[:, :, None]).sum(dim=-1)


def sliding_window(place: Place) -> Tensor:
    return causal(place) & (place.i - place.j <= 3)


def prefix(place: Place) -> Tensor:
    allowed = causal(place) | (place.j < 3)
    return allowed if place.valid is None else allowed & place.valid[:, None, None, :]


def everything(place: Place) -> Tensor:
    allowed = (place.j >= 0) & (place.i >= 0)
    return allowed[None, None] if place.valid is None else place.valid[:, None, None, :]


class Past(nn.Module):
    """A convolution over the last three places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Conv1d(width, width, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(F.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)
        return y


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.read(x)[0]
        return y


class LongFilter(nn.Module):
    """A causal convolution by FFT: what it may not see cancels only up to rounding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(64, width) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        t = x.shape[1]
        n = 2 * t
        both = torch.fft.rfft(x, n, dim=1) * torch.fft.rfft(self.filter[:t], n, dim=0)
        return torch.fft.irfft(both, n, dim=1)[:, :t]


class Sums(nn.Module):
    """Running means of the past."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1)[:, None]


EXTRAS: Sequence[Callable[[int], nn.Module] | None] = (None, Past, Recurrent, LongFilter, Sums)
WEIGHTINGS = (masked_softmax, renormalised, linear, argmax, in_float32)
MASKS = {"causal": causal, "causal, of the last 3": sliding_window, "prefix:3": prefix}


def clean(seed: int) -> Clean:
    """A clean model drawn by seed."""
    draw = random.Random(seed)
    chosen = draw.choice([*MASKS, "causal", "causal", "bidirectional"])
    extra = draw.choice(EXTRAS) if chosen.startswith("causal") else None
    weighting = draw.choice(WEIGHTINGS)
    score = draw.choice((scaled, scaled, slanted, additive))
    heads = draw.choice((1, 2, 3))
    parts = Parts(
        mask=everything if chosen == "bidirectional" else MASKS[chosen],
        normalise=weighting,
        scores=score,
        extra=extra,
        layers=draw.choice((1, 1, 2, 3)),
        heads=heads,
        width=heads * draw.choice((4, 7)),
        dropout=draw.choice((0.0, 0.0, 0.3)),
        norm=draw.choice((nn.LayerNorm, nn.RMSNorm)),
        post_norm=draw.random() < 0.5,
        activation=draw.choice((F.gelu, F.relu, F.silu, torch.sin)),
        learned_positions=draw.random() < 0.7,
        scale=draw.choice((0.1, 1.0, 1.0, 8.0)),
        max_length=draw.choice((9, 12, 12, 12, 17, 29)),
    )
    # Some parts read a row as a whole, or see a prefix that a cache has not got yet.
    whole = extra is not None or chosen == "prefix:3" or draw.random() < 0.6
    toy = Toy(parts, seed=seed)
    subject = bare(toy) if whole else subject_around(toy)
    told = f"{seed}: {chosen}, {weighting.__name__}, {score.__name__}, {extra and extra.__name__}"
    return Clean(subject, chosen.partition(",")[0], told)
