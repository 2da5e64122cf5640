"""Random models that are clean by construction, from many different components.

They vary in what an audit could mistake for a leak: kernels whose rounding depends on the shape,
sums in another order, FFTs, large weights, dropout, multiplicative masks.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tests.audits.toy_models import (
    Components,
    MaskContext,
    ToyTransformer,
    causal,
    full_subject,
    masked_softmax,
    minimal_subject,
    scaled_dot_product,
)
from torch import Tensor, nn

from regard.audits.subject import Subject


@dataclass(frozen=True)
class CleanModel:
    """A model and the mask it respects."""

    subject: Subject
    mask: str
    description: str


def renormalised(scores: Tensor, allowed: Tensor) -> Tensor:
    """Masked after the exponential, then normalised: equals a masked softmax."""
    weights = (scores - scores.detach().masked_fill(~allowed, -math.inf).amax(-1, True)).exp()
    weights = weights.masked_fill(~allowed, 0.0)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)


def elu_weights(scores: Tensor, allowed: Tensor) -> Tensor:
    """Positive weights without a softmax."""
    weights = (F.elu(scores) + 1) * allowed
    return weights / (weights.sum(dim=-1, keepdim=True) + 1e-6)


def argmax(scores: Tensor, allowed: Tensor) -> Tensor:
    largest = scores.masked_fill(~allowed, -math.inf).argmax(dim=-1)
    return F.one_hot(largest, scores.shape[-1]).to(scores.dtype)


def float32_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """The upcast that many models apply for stability."""
    return masked_softmax(scores.float(), allowed).to(scores.dtype)


def alibi(q: Tensor, k: Tensor) -> Tensor:
    """Linear distance bias (ALiBi)."""
    i = torch.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
    return scaled_dot_product(q, k) + 0.2 * (torch.arange(k.shape[2])[None] - i)


def additive(q: Tensor, k: Tensor) -> Tensor:
    return torch.tanh(q[:, :, :, None] + k[:, :, None]).sum(dim=-1)


def sliding_window(context: MaskContext) -> Tensor:
    return causal(context) & (context.i - context.j <= 3)


def prefix(context: MaskContext) -> Tensor:
    allowed = causal(context) | (context.j < 3)
    return allowed if context.valid is None else allowed & context.valid[:, None, None, :]


def bidirectional(context: MaskContext) -> Tensor:
    allowed = (context.j >= 0) & (context.i >= 0)
    return allowed[None, None] if context.valid is None else context.valid[:, None, None, :]


class CausalConv(nn.Module):
    """A causal convolution over three positions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(F.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)
        return y


class CausalGRU(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gru = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.gru(x)[0]
        return y


class CausalFFTConv(nn.Module):
    """A causal convolution by FFT: forbidden inputs cancel only up to rounding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(64, width) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        t = x.shape[1]
        n = 2 * t
        product = torch.fft.rfft(x, n, dim=1) * torch.fft.rfft(self.filter[:t], n, dim=0)
        return torch.fft.irfft(product, n, dim=1)[:, :t]


class RunningMean(nn.Module):
    """Running means of the past."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1)[:, None]


EXTRAS: Sequence[Callable[[int], nn.Module] | None] = (
    None,
    CausalConv,
    CausalGRU,
    CausalFFTConv,
    RunningMean,
)
WEIGHTINGS = (masked_softmax, renormalised, elu_weights, argmax, float32_softmax)
MASKS = {"causal": causal, "causal, sliding window of 4": sliding_window, "prefix:3": prefix}


def random_clean_model(seed: int) -> CleanModel:
    """Draw a clean model by seed."""
    draw = random.Random(seed)
    chosen = draw.choice([*MASKS, "causal", "causal", "bidirectional"])
    extra = draw.choice(EXTRAS) if chosen.startswith("causal") else None
    weighting = draw.choice(WEIGHTINGS)
    score = draw.choice((scaled_dot_product, scaled_dot_product, alibi, additive))
    heads = draw.choice((1, 2, 3))
    components = Components(
        mask=bidirectional if chosen == "bidirectional" else MASKS[chosen],
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
    # Some components need the whole row, or attend to a prefix that is not in the cache yet.
    is_minimal = extra is not None or chosen == "prefix:3" or draw.random() < 0.6
    model = ToyTransformer(components, seed=seed)
    subject = minimal_subject(model) if is_minimal else full_subject(model)
    description = (
        f"{seed}: {chosen}, {weighting.__name__}, {score.__name__}, {extra and extra.__name__}"
    )
    return CleanModel(subject, chosen.partition(",")[0], description)
