"""Planted batch coupling: rows that see each other, and nothing of the future."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from tests.audits.toy_models import Components, MaskContext, ToyTransformer, full_subject
from torch import Tensor, nn

from regard.audits.subject import Subject

COUPLED: dict[str, tuple[Callable[[], nn.Module | Subject], str]] = {}
"Name -> (model, the mode that shows it first)."

Mix = Callable[[Tensor, MaskContext], Tensor]


def plant(name: str, mix: Mix, mode: str = "evaluation mode") -> None:
    COUPLED[name] = (
        lambda: ToyTransformer(Components(between_blocks=mix, max_length=12)),
        mode,
    )


def largest_norm_first(x: Tensor) -> Tensor:
    """1 for the row with the largest embedding of its first token, else 0."""
    norms = x[:, 0].norm(dim=-1)
    return (norms == norms.max()).float()[:, None, None]


def running_over_rows(x: Tensor) -> Tensor:
    return x.cumsum(dim=0) - x


def attend(x: Tensor) -> Tensor:
    return (x @ x.transpose(1, 2)).softmax(dim=-1) @ x


def largest_so_far(x: Tensor) -> Tensor:
    """Over rows and features, of each position and those before it."""
    largest: Tensor = x.detach().abs().amax(dim=(0, 2), keepdim=True).cummax(dim=1).values
    return largest


def mean_subtracted(x: Tensor) -> Tensor:
    return x - x.mean(dim=0, keepdim=True)


def merged(x: Tensor) -> Tensor:
    """Rows that begin alike share what they hold, as a cache of prefixes does when it is wrong."""
    alike = (x[:, :1] == x[None, :, 0]).all(dim=-1).float()
    return (alike @ x.flatten(1) / alike.sum(dim=1, keepdim=True)).view_as(x)


plant("mean of the batch subtracted", lambda x, p: x - x.mean(dim=0, keepdim=True))
plant(
    "mean of the batch subtracted in training",
    lambda x, p: x - x.mean(dim=0, keepdim=True) if p.training else x,
    "training mode",
)
plant("variance of the batch added", lambda x, p: x + x.var(dim=0, correction=0, keepdim=True))
plant("rows see the rows before them", lambda x, p: x + running_over_rows(x))
plant("rows see the next row", lambda x, p: x + x.roll(-1, dims=0))
plant("scaled by the number of rows", lambda x, p: x / len(x))
plant("one row of the batch is chosen", lambda x, p: x + largest_norm_first(x))
plant("a billionth of the mean", lambda x, p: x + 1e-9 * x.mean(dim=0, keepdim=True))
plant("attention over the batch", lambda x, p: x + attend(x.transpose(0, 1)).transpose(0, 1))
plant("scaled by the largest value of the batch", lambda x, p: x / largest_so_far(x))
plant("the row's index in its batch", lambda x, p: x * (1 + torch.arange(len(x)))[:, None, None])
plant("rows that begin alike are merged", lambda x, p: merged(x))
plant("in batches of four and more", lambda x, p: mean_subtracted(x) if len(x) > 3 else x)
plant("in batches of even size", lambda x, p: mean_subtracted(x) if len(x) % 2 == 0 else x)
plant("in batches of eight and more", lambda x, p: mean_subtracted(x) if len(x) >= 8 else x)


class GateOfOne(nn.Module):
    """Opens for a row that runs alone."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.gate * x if len(x) == 1 else 0 * x


class GatedMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.gate * x.mean(dim=0, keepdim=True)


COUPLED["behind a zero gate"] = (
    lambda: ToyTransformer(Components(extra=lambda width: GatedMean(), max_length=12)),
    "structural mode",
)
COUPLED["a row alone, behind a zero gate"] = (
    lambda: ToyTransformer(Components(extra=lambda width: GateOfOne(), max_length=12)),
    "structural mode",
)


def shared_cache(module: ToyTransformer, ids: Tensor, cuts: Sequence[int]) -> Tensor:
    """Every row continues the cache of the first."""
    cache: dict[int, Any] = {}
    ends = zip((0, *cuts), (*cuts, ids.shape[1]), strict=True)
    pieces = []
    for begin, end in ends:
        pieces.append(module(ids[:, begin:end], cache=cache, past=begin))
        cache = {n: tuple(one[:1].expand_as(one) for one in kv) for n, kv in cache.items()}
    return torch.cat(pieces, dim=1)


COUPLED["one cache for all rows"] = (
    lambda: replace(
        full_subject(ToyTransformer(Components(max_length=12))), run_cached=shared_cache
    ),
    "with the KV cache",
)
