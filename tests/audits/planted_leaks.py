"""Planted leaks: toy models that are causal except for one named bug. Masks: True = may attend."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
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

LEAKS: dict[str, Callable[[], Subject]] = {}

Mask = Callable[[MaskContext], Tensor]


def register_leak(
    name: str,
) -> Callable[[Callable[[], Components | Subject]], Callable[[], Components | Subject]]:
    """Register a leak; components become a short model with a minimal subject."""

    def add(build: Callable[[], Components | Subject]) -> Callable[[], Components | Subject]:
        def subject() -> Subject:
            built = build()
            return (
                built
                if isinstance(built, Subject)
                else minimal_subject(ToyTransformer(replace(built, max_length=12)))
            )

        assert name not in LEAKS
        LEAKS[name] = subject
        return build

    return add


def mask_leak(name: str, mask: Mask, *, layers: int = 1) -> None:
    register_leak(name)(lambda: Components(mask=mask, layers=layers))


def full_subject_leak(name: str, mask: Mask, *, dropout: float = 0.0) -> None:
    """A leak that shows only in longer rows, with a KV cache, padding or attention weights."""
    register_leak(name)(
        lambda: full_subject(ToyTransformer(Components(mask=mask, dropout=dropout)))
    )


def bidirectional(context: MaskContext) -> Tensor:
    allowed = torch.ones(1, 1, context.length, context.past + context.length, dtype=torch.bool)
    return allowed if context.valid is None else allowed & context.valid[:, None, None, :]


def lookahead(by: int) -> Mask:
    return lambda context: (context.j <= context.i + by)[None, None]


def only_if(condition: Callable[[MaskContext], bool], then: Mask = bidirectional) -> Mask:
    return lambda context: then(context) if condition(context) else causal(context)


def one_pair_mask(context: MaskContext) -> Tensor:
    return causal(context) | ((context.i == 3) & (context.j == 9))[None, None]


def one_head_mask(context: MaskContext) -> Tensor:
    if context.layer == 0:
        return causal(context)
    return torch.cat([causal(context), bidirectional(context)], dim=1)


def transposed_mask(context: MaskContext) -> Tensor:
    return (context.j >= context.i)[None, None]


def block_causal(size: int) -> Mask:
    return lambda context: (context.j // size <= context.i // size)[None, None]


# Wrong masks.
mask_leak("no mask", bidirectional)
mask_leak("mask off by one", lookahead(1))
mask_leak("mask off by three", lookahead(3))
mask_leak("one position ahead only", lambda p: causal(p) | (p.j == p.i + 1)[None, None])
mask_leak("two positions ahead only", lambda p: causal(p) | (p.j == p.i + 2)[None, None])
mask_leak("transposed mask", transposed_mask)
mask_leak("unordered blocks", block_causal(4))
mask_leak("prefix fully visible", lambda p: causal(p) | (p.j < 5)[None, None])
mask_leak("last token visible to all", lambda p: causal(p) | (p.j == p.j.max())[None, None])
mask_leak("one pair", one_pair_mask)
mask_leak("one pair, two layers", one_pair_mask, layers=2)
mask_leak("one head of one layer", one_head_mask, layers=2)
mask_leak("second layer unmasked", only_if(lambda p: p.layer == 1), layers=2)
mask_leak("first layer off by one", only_if(lambda p: p.layer == 0, lookahead(1)), layers=2)

# Leaks in one forward mode only.
mask_leak("training mode only", only_if(lambda p: p.training))
mask_leak("evaluation mode only", only_if(lambda p: not p.training))
full_subject_leak("mask dropped when weights are requested", only_if(lambda p: p.need_weights))
full_subject_leak(
    "off by one when weights are requested", only_if(lambda p: p.need_weights, lookahead(1))
)
full_subject_leak("mask lost in the cache", only_if(lambda p: p.past > 0))
full_subject_leak("off by one in the cache", only_if(lambda p: p.past > 0, lookahead(1)))
full_subject_leak("only past a length", only_if(lambda p: p.length > 24))
full_subject_leak(
    "only past a length, in training", only_if(lambda p: p.length > 30 and p.training)
)
full_subject_leak("off by one past a length", only_if(lambda p: p.length > 24, lookahead(1)))
full_subject_leak("padding mask instead of the causal one", only_if(lambda p: p.valid is not None))
full_subject_leak(
    "training mode only, under dropout", only_if(lambda p: p.training, lookahead(1)), dropout=0.3
)


# Forbidden scores that still have weight.
def penalised(by: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, allowed: (scores - by * ~allowed).softmax(dim=-1)


for penalty in (1.0, 9.0, 15.0, 30.0, 60.0, 90.0):
    register_leak(f"penalty {penalty:g}")(lambda by=penalty: Components(normalise=penalised(by)))


@register_leak("mask forgotten in float32")
def mask_forgotten_in_float32() -> Components:
    def normalise(scores: Tensor, allowed: Tensor) -> Tensor:
        if scores.dtype == torch.float32:
            return scores.softmax(dim=-1)
        return masked_softmax(scores, allowed)

    return Components(normalise=normalise)


@register_leak("mask after softmax")
def mask_after_softmax() -> Components:
    return Components(normalise=lambda scores, allowed: scores.softmax(dim=-1) * allowed)


@register_leak("softmax over queries")
def softmax_over_queries() -> Components:
    def normalise(scores: Tensor, allowed: Tensor) -> Tensor:
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-2)
        return weights / weights.sum(dim=-1, keepdim=True)

    return Components(normalise=normalise)


@register_leak("threshold from all scores")
def threshold_from_all_scores() -> Components:
    def normalise(scores: Tensor, allowed: Tensor) -> Tensor:
        large = scores >= scores.mean(dim=-1, keepdim=True)
        return masked_softmax(scores, allowed & (large | torch.eye(len(allowed[0, 0])).bool()))

    return Components(normalise=normalise)


@register_leak("scores scaled by the largest of the row")
def scores_scaled_by_the_largest() -> Components:
    def normalise(scores: Tensor, allowed: Tensor) -> Tensor:
        return masked_softmax(scores / scores.abs().amax(dim=-1, keepdim=True), allowed)

    return Components(normalise=normalise)


# Mixing of positions outside attention.
def mixing_leak(name: str, change: Callable[[Tensor, MaskContext], Tensor]) -> None:
    register_leak(name)(lambda: Components(between_blocks=change))


mixing_leak(
    "normalised over time", lambda x, p: (x - x.mean(1, True)) / (x.var(1, False, True) + 1)
)
mixing_leak("mean over time subtracted", lambda x, p: x - x.mean(dim=1, keepdim=True))
mixing_leak(
    "RMS norm over time and width",
    lambda x, p: x / x.square().mean(dim=(1, 2), keepdim=True).sqrt(),
)
mixing_leak("maximum over time added", lambda x, p: x + x.amax(dim=1, keepdim=True))
mixing_leak("sum from the end", lambda x, p: x + x.flip(1).cumsum(1).flip(1) / x.shape[1])
mixing_leak("shifted the wrong way", lambda x, p: x + torch.cat([x[:, 1:], x[:, :1] * 0], dim=1))
mixing_leak("rolled around the end", lambda x, p: x + x.roll(1, dims=1))
mixing_leak("a millionth of the mean", lambda x, p: x + 1e-6 * x.mean(dim=1, keepdim=True))
mixing_leak("a billionth of the mean", lambda x, p: x + 1e-9 * x.mean(dim=1, keepdim=True))
mixing_leak(
    "quantised to the row's range",
    lambda x, p: (x / (s := x.detach().abs().amax(dim=(1, 2), keepdim=True) / 127)).round() * s,
)


@register_leak("experts choose their tokens")
def experts_choose_their_tokens() -> Components:
    def route(x: Tensor, context: MaskContext) -> Tensor:
        selected = x[..., 0].topk(max(1, x.shape[1] // 2), dim=1).indices
        return x + torch.zeros_like(x[..., 0]).scatter(1, selected, 1.0)[..., None] * x.tanh()

    return Components(between_blocks=route)


class BatchNormOverTime(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return y


class CentredConv(nn.Module):
    """A convolution with symmetric padding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return y


class BidirectionalGRU(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gru = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.gru(x)[0]
        return y


class GatedMean(nn.Module):
    """Adds the mean of the row through a gate initialised to zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.gate * x.mean(dim=1, keepdim=True)


class CircularFFTConv(nn.Module):
    """A convolution by FFT without zero padding: it wraps around."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(8, width) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        return torch.fft.irfft(
            torch.fft.rfft(x, n, dim=1) * torch.fft.rfft(self.filter[:n], n, dim=0), n, dim=1
        )


class NoisyExperts(nn.Module):
    """Experts with dropout, which draw for as many tokens as they get; with `ahead`, in training
    also the mean of the row."""

    def __init__(self, width: int, *, ahead: bool = False) -> None:
        super().__init__()
        self.ahead = ahead
        self.router = nn.Linear(width, 3)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.Dropout(0.3)) for _ in range(3)
        )

    def forward(self, x: Tensor) -> Tensor:
        chosen, out = self.router(x).argmax(dim=-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            out[chosen == number] = expert(x[chosen == number])
        return out + 0.1 * x.mean(dim=1, keepdim=True) if self.ahead and self.training else out


register_leak("batch statistics in training")(lambda: Components(extra=BatchNormOverTime))
register_leak("mean of the row beside experts that draw noise")(
    lambda: Components(extra=lambda width: NoisyExperts(width, ahead=True))
)
register_leak("centred convolution")(lambda: Components(extra=CentredConv))
register_leak("recurrent in both directions")(lambda: Components(extra=BidirectionalGRU))
register_leak("behind a zero-initialised gate")(lambda: Components(extra=GatedMean))
register_leak("circular convolution")(lambda: Components(extra=CircularFFTConv))


# Dependence on the length of the row.
register_leak("positions counted from the end")(
    lambda: Components(positions=lambda p: torch.arange(p.length).flip(0))
)


@register_leak("scores scaled by the total length")
def scores_scaled_by_the_total_length() -> Components:
    return Components(scores=lambda q, k: scaled_dot_product(q, k) * math.log(k.shape[2] + 1))


# Leaks that depend on the tokens.
def token_dependent(selects: Callable[[Tensor], Tensor]) -> Mask:
    def mask(context: MaskContext) -> Tensor:
        if context.past or context.valid is not None or context.ids is None:
            return causal(context)
        return causal(context) | (
            selects(context.ids)[:, None] & (context.j == context.i + 1)[None, None]
        )

    return mask


mask_leak("one token visible too early", token_dependent(lambda ids: (ids == 7)[:, None, :]))
mask_leak("one token attends ahead", token_dependent(lambda ids: (ids == 11)[:, :, None]))


# Inputs and targets off by one.
class UnshiftedTarget(ToyTransformer):
    """Adds the next token's embedding, as a target that was never shifted does."""

    def forward(self, ids: Tensor, **options: object) -> Tensor:
        out: Tensor = super().forward(ids, **options)  # type: ignore[arg-type]
        return out + 0.1 * self.head(self.tokens(ids.roll(-1, dims=1)))


@register_leak("target not shifted")
def target_not_shifted() -> Subject:
    return minimal_subject(UnshiftedTarget(Components(max_length=12)))


@register_leak("target not shifted, embedding unknown")
def target_not_shifted_embedding_unknown() -> Subject:
    return replace(minimal_subject(UnshiftedTarget(Components(max_length=12))), embedding="")


@register_leak("callable without its module")
def callable_without_its_module() -> Subject:
    model = ToyTransformer(Components(mask=lookahead(1))).eval()
    return Subject("callable", lambda module, ids, valid: model(ids), vocabulary=19, max_length=12)
