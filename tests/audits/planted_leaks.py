"""Planted leaks: toys that are causal but for one named mistake. Masks: True = may attend."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
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

LEAKS: dict[str, Callable[[], Subject]] = {}

Mask = Callable[[Place], Tensor]


def leak(name: str) -> Callable[[Callable[[], Parts | Subject]], Callable[[], Parts | Subject]]:
    """Parts alone make a short toy that only reads ids; a subject stands as it is."""

    def add(make: Callable[[], Parts | Subject]) -> Callable[[], Parts | Subject]:
        def subject() -> Subject:
            made = make()
            return made if isinstance(made, Subject) else bare(Toy(replace(made, max_length=12)))

        assert name not in LEAKS
        LEAKS[name] = subject
        return make

    return add


def masked(name: str, mask: Mask, *, layers: int = 1) -> None:
    leak(name)(lambda: Parts(mask=mask, layers=layers))


def able(name: str, mask: Mask, *, dropout: float = 0.0) -> None:
    """A leak that shows only in longer rows, through a cache, with padding or with weights."""
    leak(name)(lambda: subject_around(Toy(Parts(mask=mask, dropout=dropout))))


def everything(place: Place) -> Tensor:
    allowed = torch.ones(1, 1, place.places, place.past + place.places, dtype=torch.bool)
    return allowed if place.valid is None else allowed & place.valid[:, None, None, :]


def ahead(by: int) -> Mask:
    return lambda place: (place.j <= place.i + by)[None, None]


def when(condition: Callable[[Place], bool], then: Mask = everything) -> Mask:
    return lambda place: then(place) if condition(place) else causal(place)


def one_pair(place: Place) -> Tensor:
    return causal(place) | ((place.i == 3) & (place.j == 9))[None, None]


def one_head(place: Place) -> Tensor:
    if place.layer == 0:
        return causal(place)
    return torch.cat([causal(place), everything(place)], dim=1)


def transposed(place: Place) -> Tensor:
    return (place.j >= place.i)[None, None]


def blocks_of(size: int) -> Mask:
    return lambda place: (place.j // size <= place.i // size)[None, None]


# Masks that are wrong everywhere, or only somewhere.
masked("no mask", everything)
masked("mask off by one", ahead(1))
masked("mask off by three", ahead(3))
masked("one place ahead alone", lambda p: causal(p) | (p.j == p.i + 1)[None, None])
masked("two places ahead alone", lambda p: causal(p) | (p.j == p.i + 2)[None, None])
masked("transposed mask", transposed)
masked("groups without order", blocks_of(4))
masked("prefix seen whole", lambda p: causal(p) | (p.j < 5)[None, None])
masked("last token seen by all", lambda p: causal(p) | (p.j == p.j.max())[None, None])
masked("one pair", one_pair)
masked("one pair, two layers", one_pair, layers=2)
masked("one head of one layer", one_head, layers=2)
masked("second layer unmasked", when(lambda p: p.layer == 1), layers=2)
masked("first layer off by one", when(lambda p: p.layer == 0, ahead(1)), layers=2)

# Only in some way of running it.
masked("training mode only", when(lambda p: p.training))
masked("evaluation mode only", when(lambda p: not p.training))
able("mask dropped when weights are requested", when(lambda p: p.wants_weights))
able("off by one when weights are requested", when(lambda p: p.wants_weights, ahead(1)))
able("mask lost in the cache", when(lambda p: p.past > 0))
able("off by one in the cache", when(lambda p: p.past > 0, ahead(1)))
able("only past a length", when(lambda p: p.places > 24))
able("only past a length, in training", when(lambda p: p.places > 30 and p.training))
able("off by one past a length", when(lambda p: p.places > 24, ahead(1)))
able("padding mask instead of the causal one", when(lambda p: p.valid is not None))
able("training mode only, under dropout", when(lambda p: p.training, ahead(1)), dropout=0.3)


# Forbidden scores that still count.
def penalised(by: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, allowed: (scores - by * ~allowed).softmax(dim=-1)


for penalty in (1.0, 9.0, 15.0, 30.0, 60.0, 90.0):
    leak(f"penalty {penalty:g}")(lambda by=penalty: Parts(normalise=penalised(by)))


@leak("mask forgotten in float32")
def mask_forgotten_in_float32() -> Parts:
    def normalise(scores: Tensor, allowed: Tensor) -> Tensor:
        if scores.dtype == torch.float32:
            return scores.softmax(dim=-1)
        return masked_softmax(scores, allowed)

    return Parts(normalise=normalise)


@leak("mask after softmax")
def mask_after_softmax() -> Parts:
    return Parts(normalise=lambda scores, allowed: scores.softmax(dim=-1) * allowed)


@leak("softmax over queries")
def softmax_over_queries() -> Parts:
    def normalise(scores: Tensor, allowed: Tensor) -> Tensor:
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-2)
        return weights / weights.sum(dim=-1, keepdim=True)

    return Parts(normalise=normalise)


@leak("threshold from all scores")
def threshold_from_all_scores() -> Parts:
    def normalise(scores: Tensor, allowed: Tensor) -> Tensor:
        large = scores >= scores.mean(dim=-1, keepdim=True)
        return masked_softmax(scores, allowed & (large | torch.eye(len(allowed[0, 0])).bool()))

    return Parts(normalise=normalise)


@leak("scores scaled by the largest of the row")
def scores_scaled_by_the_largest() -> Parts:
    def normalise(scores: Tensor, allowed: Tensor) -> Tensor:
        return masked_softmax(scores / scores.abs().amax(dim=-1, keepdim=True), allowed)

    return Parts(normalise=normalise)


# Something else than attention looks along the row.
def along(name: str, change: Callable[[Tensor, Place], Tensor]) -> None:
    leak(name)(lambda: Parts(over_time=change))


along("normalised over time", lambda x, p: (x - x.mean(1, True)) / (x.var(1, False, True) + 1))
along("mean over time taken off", lambda x, p: x - x.mean(dim=1, keepdim=True))
along("size over time and width", lambda x, p: x / x.square().mean(dim=(1, 2), keepdim=True).sqrt())
along("largest over time added", lambda x, p: x + x.amax(dim=1, keepdim=True))
along("sum from the end", lambda x, p: x + x.flip(1).cumsum(1).flip(1) / x.shape[1])
along("shifted the wrong way", lambda x, p: x + torch.cat([x[:, 1:], x[:, :1] * 0], dim=1))
along("rolled round the end", lambda x, p: x + x.roll(1, dims=1))
along("a millionth of the mean", lambda x, p: x + 1e-6 * x.mean(dim=1, keepdim=True))
along("a billionth of the mean", lambda x, p: x + 1e-9 * x.mean(dim=1, keepdim=True))
along(
    "rounded to the row's range",
    lambda x, p: (x / (s := x.detach().abs().amax(dim=(1, 2), keepdim=True) / 127)).round() * s,
)


@leak("experts choose their tokens")
def experts_choose_their_tokens() -> Parts:
    def chosen(x: Tensor, place: Place) -> Tensor:
        taken = x[..., 0].topk(max(1, x.shape[1] // 2), dim=1).indices
        return x + torch.zeros_like(x[..., 0]).scatter(1, taken, 1.0)[..., None] * x.tanh()

    return Parts(over_time=chosen)


class OverBatchAndTime(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return y


class Centred(nn.Module):
    """A convolution that reaches as far ahead as back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x.transpose(1, 2)).transpose(1, 2)
        return y


class BothWays(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.read(x)[0]
        return y


class Gated(nn.Module):
    """Looks at the whole row through a gate that starts at zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.gate * x.mean(dim=1, keepdim=True)


class Circular(nn.Module):
    """A long convolution by FFT without the zeros that keep its end from its start."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(8, width) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        return torch.fft.irfft(
            torch.fft.rfft(x, n, dim=1) * torch.fft.rfft(self.filter[:n], n, dim=0), n, dim=1
        )


leak("batch statistics in training")(lambda: Parts(extra=OverBatchAndTime))
leak("centred convolution")(lambda: Parts(extra=Centred))
leak("recurrent in both directions")(lambda: Parts(extra=BothWays))
leak("behind a gate that starts at zero")(lambda: Parts(extra=Gated))
leak("circular convolution")(lambda: Parts(extra=Circular))


# The length of the row is known.
leak("positions counted from the end")(
    lambda: Parts(positions=lambda p: torch.arange(p.places).flip(0))
)


@leak("scores scaled by the total length")
def scores_scaled_by_the_total_length() -> Parts:
    return Parts(scores=lambda q, k: scaled(q, k) * math.log(k.shape[2] + 1))


# Tokens open the leak.
def opened_by(reads: Callable[[Tensor], Tensor]) -> Mask:
    def mask(place: Place) -> Tensor:
        if place.past or place.valid is not None or place.ids is None:
            return causal(place)
        return causal(place) | (reads(place.ids)[:, None] & (place.j == place.i + 1)[None, None])

    return mask


masked("one token is seen too early", opened_by(lambda ids: (ids == 7)[:, None, :]))
masked("one token looks ahead", opened_by(lambda ids: (ids == 11)[:, :, None]))


# Inputs and outputs one off.
class NotShifted(Toy):
    """Adds the next token's vector, as a target that was never shifted does."""

    def forward(self, ids: Tensor, **how: object) -> Tensor:
        out: Tensor = super().forward(ids, **how)  # type: ignore[arg-type]
        return out + 0.1 * self.head(self.tokens(ids.roll(-1, dims=1)))


@leak("target not shifted")
def target_not_shifted() -> Subject:
    return bare(NotShifted(Parts(max_length=12)))


@leak("target not shifted, gradients out of reach")
def target_not_shifted_unknown() -> Subject:
    return replace(bare(NotShifted(Parts(max_length=12))), embedding="")


@leak("callable without its module")
def callable_without_its_module() -> Subject:
    toy = Toy(Parts(mask=ahead(1))).eval()
    return Subject("callable", lambda module, ids, valid: toy(ids), vocabulary=19, max_length=12)
