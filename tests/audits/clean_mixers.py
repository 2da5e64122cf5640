"""Clean models that mix positions otherwise than attention does, or write what they compute."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from tests.audits.planted_hidden_leaks import WIDTH, past
from tests.audits.toy_models import Components, ToyTransformer
from torch import Tensor, nn

MIXERS: dict[str, Callable[[], nn.Module]] = {}

LENGTH = 24


def mixer(name: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    def add(module: type[nn.Module]) -> type[nn.Module]:
        def model() -> nn.Module:
            with torch.random.fork_rng():
                torch.manual_seed(1)
                return ToyTransformer(Components(extra=lambda width: module(), max_length=LENGTH))

        MIXERS[name] = model
        return module

    return add


def lower(t: int) -> Tensor:
    return torch.ones(t, t).tril().bool()


def linear() -> nn.Linear:
    return nn.Linear(WIDTH, WIDTH)


@mixer("selective state space")
class Selective(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log_rates = nn.Parameter(torch.arange(1.0, 5.0).log().repeat(WIDTH, 1))
        self.step, self.skip = linear(), nn.Parameter(torch.ones(WIDTH))
        self.write, self.read = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        state, out = x.new_zeros(len(x), WIDTH, 4), []
        for one in x.unbind(dim=1):
            step = F.softplus(self.step(one))[..., None]
            state = (-step * self.log_rates.exp()).exp() * state
            state = state + step * self.write(one)[:, None] * one[..., None]
            out.append((state * self.read(one)[:, None]).sum(-1) + self.skip * one)
        return torch.stack(out, dim=1)


@mixer("retention")
class Retention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = linear(), linear()
        self.register_buffer("decay", torch.tensor(0.9))

    def forward(self, x: Tensor) -> Tensor:
        t = torch.arange(x.shape[1])
        distance = t[:, None] - t
        weights = torch.where(distance >= 0, self.decay ** distance.clamp(min=0), 0.0).to(x)
        return (self.query(x) @ self.key(x).transpose(1, 2) * weights) @ x


@mixer("long convolution by FFT, padded with zeros")
class LongConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.taps = nn.Parameter(0.2 * torch.randn(LENGTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        t, n = x.shape[1], 2 * x.shape[1]
        spectrum = torch.fft.rfft(x, n, dim=1) * torch.fft.rfft(self.taps[:t], n, dim=0)
        return torch.fft.irfft(spectrum, n, dim=1)[:, :t]


@mixer("attention within blocks of eight and the block before")
class LocalBlocks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        blocks = F.pad(x, (0, 0, 0, -t % 8)).view(b, -1, 8, w)
        keys = torch.cat([F.pad(blocks, (0, 0, 0, 0, 1, -1)), blocks], dim=2)
        i, j = torch.arange(8)[:, None] + 8, torch.arange(16)
        allowed = ((j <= i) & (i - j < 8)).repeat(blocks.shape[1], 1, 1)
        allowed[0, :, :8] = False
        scores = (blocks @ keys.transpose(-1, -2)).masked_fill(~allowed, -math.inf)
        return (scores.softmax(dim=-1) @ keys).reshape(b, -1, w)[:, :t]


@mixer("linear attention in chunks of five")
class Chunks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        y = F.pad(x, (0, 0, 0, -t % 5)).view(b, -1, 5, w)
        state = F.pad((y.transpose(-1, -2) @ y).cumsum(dim=1), (0, 0, 0, 0, 1, -1))
        within = (y @ y.transpose(-1, -2)).tril() @ y
        return (y @ state + within).reshape(b, -1, w)[:, :t] / 10


@mixer("experts that the first tokens fill")
class FirstCome(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 3)
        self.experts = nn.Parameter(0.2 * torch.randn(3, WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.router(x).argmax(dim=-1)
        one_hot = F.one_hot(chosen, 3)
        place = (one_hot.cumsum(dim=1) * one_hot).sum(dim=-1)
        y = torch.einsum("btw,btwv->btv", x, self.experts[chosen])
        return torch.where((place <= 4)[..., None], y, 0.0)


@mixer("attention among equal hashes")
class Hashes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("directions", torch.randn(WIDTH, 3))

    def forward(self, x: Tensor) -> Tensor:
        bucket = (x @ self.directions).argmax(dim=-1)
        allowed = (bucket[:, :, None] == bucket[:, None]) & lower(x.shape[1])
        return (x @ x.transpose(1, 2)).masked_fill(~allowed, -math.inf).softmax(dim=-1) @ x


@mixer("the three largest scores of the past")
class Largest(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        t = x.shape[1]
        scores = (x @ x.transpose(1, 2)).masked_fill(~lower(t), -math.inf)
        least = scores.topk(min(3, t), dim=-1).values[..., -1:]
        return scores.masked_fill(scores < least, -math.inf).softmax(dim=-1) @ x


@mixer("static cache")
class StaticCache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.keys = linear()
        self.register_buffer("cache", torch.zeros(1, LENGTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        keys = self.cache.repeat(len(x), 1, 1).to(x)
        keys[:, : x.shape[1]] = self.keys(x)
        allowed = torch.arange(LENGTH) <= torch.arange(x.shape[1])[:, None]
        scores = (x @ keys.transpose(1, 2)).masked_fill(~allowed, -math.inf)
        return scores.softmax(dim=-1) @ keys


@mixer("codes, counted in training")
class Codes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randn(7, WIDTH))
        self.register_buffer("counts", torch.zeros(7))

    def forward(self, x: Tensor) -> Tensor:
        nearest = (x[:, :, None] - self.codes).square().sum(dim=-1).argmin(dim=-1)
        if self.training:
            self.counts = self.counts + F.one_hot(nearest, 7).sum(dim=(0, 1)).to(x)
        return past(x + (self.codes[nearest] - x).detach())


@mixer("quantised for each token")
class Quantised(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = past(x)
        step = y.detach().abs().amax(dim=-1, keepdim=True) / 127 + 1e-9
        return (y / step).round() * step


@mixer("Gumbel noise in training")
class Gumbel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router, self.values = nn.Linear(WIDTH, 4), nn.Parameter(torch.randn(4, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.router(past(x))
        weights = F.gumbel_softmax(scores, hard=True) if self.training else scores.softmax(dim=-1)
        return weights @ self.values
