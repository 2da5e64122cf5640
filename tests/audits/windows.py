"""Windows as wide as declared, and wider: in one layer, one head, one query, beside the layers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tests.audits.clean_models import CausalConv, RunningMean
from tests.audits.toy_models import Components, MaskContext, ToyTransformer, causal
from torch import Tensor, nn

WINDOW = 4

Mask = Callable[[MaskContext], Tensor]


def declared(length: int) -> Tensor:
    """The last four positions, the query's own among them."""
    return torch.ones(length, length).tril().triu(1 - WINDOW).bool()


def window(width: int) -> Mask:
    return lambda context: causal(context) & (context.i - context.j < width)


def symmetric(length: int) -> Tensor:
    return torch.ones(length, length).tril(2).triu(-2).bool()


def both_sides(width: int) -> Mask:
    return lambda context: ((context.i - context.j).abs() <= width)[None, None]


def in_layer(layer: int, then: Mask) -> Mask:
    return lambda context: (then if context.layer == layer else window(WINDOW))(context)


def one_head(context: MaskContext) -> Tensor:
    return torch.cat([window(WINDOW)(context), window(WINDOW + 1)(context)], dim=1)


def first_token_too(context: MaskContext) -> Tensor:
    return window(WINDOW)(context) | (context.j == 0)[None, None]


def one_row(context: MaskContext) -> Tensor:
    return window(WINDOW)(context) | ((context.i == 9) & (context.j == 2))[None, None]


class ConvolvedKeys(nn.Module):
    """A window over a short convolution, in one module."""

    def __init__(self, width: int, *, window: int) -> None:
        super().__init__()
        self.conv, self.window = CausalConv(width), window

    def forward(self, x: Tensor) -> Tensor:
        keys, t = self.conv(x), x.shape[1]
        scores = (x @ keys.transpose(1, 2)).masked_fill(
            ~torch.ones(t, t).tril().triu(1 - self.window).bool(), float("-inf")
        )
        return scores.softmax(dim=-1) @ keys


class ClosedMean(nn.Module):
    """A running mean behind a projection of zeros."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mean, self.out = RunningMean(width), nn.Linear(width, width)
        for parameter in self.out.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(self.mean(x))
        return y


class GatedMean(nn.Module):
    """A running mean times zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.gate * x.cumsum(dim=1) / 10


class SkipConnection(nn.Module):
    """Layers between an input and its use again: only the layers mix positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.layers = nn.ModuleList(CausalConv(8) for _ in range(3))
        self.join = nn.Bilinear(8, 8, 8)
        self.head = nn.Linear(8, 20)

    def forward(self, ids: Tensor) -> Tensor:
        embedded = x = self.embedding(ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(self.join(embedded, x))


def toy(
    mask: Mask, *, layers: int = 2, extra: Callable[[int], nn.Module] | None = None
) -> nn.Module:
    return ToyTransformer(Components(mask=mask, layers=layers, extra=extra, max_length=12))


WIDE: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor]]] = {
    "wider by one": (lambda: toy(window(WINDOW + 1)), declared),
    "no window": (lambda: toy(causal), declared),
    "one layer of three": (lambda: toy(in_layer(1, window(WINDOW + 2)), layers=3), declared),
    "last layer": (lambda: toy(in_layer(2, causal), layers=3), declared),
    "one head": (lambda: toy(one_head), declared),
    "first token always": (lambda: toy(first_token_too), declared),
    "one query": (lambda: toy(one_row), declared),
    "one layer only": (lambda: toy(window(WINDOW + 1), layers=1), declared),
    "wider convolution": (
        lambda: toy(window(WINDOW), extra=lambda w: nn.Sequential(*[CausalConv(w)] * 1)),
        lambda t: torch.ones(t, t).tril().triu(-1).bool(),
    ),
    "a running mean beside the layers": (
        lambda: ToyTransformer(
            Components(
                mask=window(WINDOW),
                layers=2,
                extra=lambda width: RunningMean(width),
                max_length=12,
            )
        ),
        declared,
    ),
    "mixed between the layers": (
        lambda: ToyTransformer(
            Components(
                mask=window(WINDOW),
                layers=2,
                between_blocks=lambda x, p: x + x.cumsum(dim=1) / 10,
                max_length=12,
            )
        ),
        declared,
    ),
    "wider over convolved keys": (
        lambda: toy(window(WINDOW), extra=lambda w: ConvolvedKeys(w, window=WINDOW + 3)),
        declared,
    ),
    "behind a projection of zeros": (lambda: toy(window(WINDOW), extra=ClosedMean), declared),
    "behind a zero gate": (lambda: toy(window(WINDOW), extra=GatedMean), declared),
    "in training": (
        lambda: toy(lambda p: (window(WINDOW + 2) if p.training else window(WINDOW))(p)),
        declared,
    ),
    "both sides, wider by one": (lambda: toy(both_sides(3)), symmetric),
    "both sides, causal allowed": (lambda: toy(causal), symmetric),
}

NARROW: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor]]] = {
    "as declared": (lambda: toy(window(WINDOW)), declared),
    "as declared, three layers": (lambda: toy(window(WINDOW), layers=3), declared),
    "narrower": (lambda: toy(window(WINDOW - 1)), declared),
    "with a convolution": (lambda: toy(window(WINDOW), extra=CausalConv), declared),
    "both sides": (lambda: toy(both_sides(2)), symmetric),
    "over convolved keys": (
        lambda: toy(window(WINDOW), extra=lambda w: ConvolvedKeys(w, window=WINDOW)),
        declared,
    ),
    "joined with its own input": (
        SkipConnection,
        lambda t: torch.ones(t, t).tril().triu(-2).bool(),
    ),
}
