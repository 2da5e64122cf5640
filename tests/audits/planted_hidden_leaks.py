"""Planted leaks that the model's own weights conceal: each is clean until something moves."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from tests.audits.toy_models import VOCABULARY, Components, ToyTransformer
from torch import Tensor, nn

HIDDEN: dict[str, tuple[Callable[[], nn.Module], str]] = {}
"Name -> (model, the tensor that has to move)."

WIDTH = 16


def future(x: Tensor) -> Tensor:
    """Mean of each position and all later ones: what no position may see."""
    counts = torch.arange(x.shape[1], 0, -1).to(x)[:, None]
    return x.flip(1).cumsum(1).flip(1) / counts


def past(x: Tensor) -> Tensor:
    return x.cumsum(1) / torch.arange(1, x.shape[1] + 1).to(x)[:, None]


class Branch(nn.Module):
    """A branch (b,t,w) -> (b,t,w) with one parameter or buffer, `gate`."""

    def __init__(
        self,
        gate: Tensor,
        mix: Callable[[Branch, Tensor], Tensor],
        *,
        name: str = "gate",
        kind: str = "parameter",
    ) -> None:
        super().__init__()
        self.mix, self.name = mix, name
        if kind == "buffer":
            self.register_buffer(name, gate)
        elif kind == "attribute":
            setattr(self, name, gate)
        else:
            setattr(self, name, nn.Parameter(gate, requires_grad=kind == "parameter"))

    @property
    def value(self) -> Tensor:
        value: Tensor = getattr(self, self.name)
        return value

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(self, x)


def plant(
    name: str,
    gate: Callable[[], Tensor],
    mix: Callable[[Branch, Tensor], Tensor],
    *,
    called: str = "gate",
    kind: str = "parameter",
    layers: int = 1,
) -> None:
    plant_module(
        name, lambda: Branch(gate(), mix, name=called, kind=kind), f"extra.{called}", layers=layers
    )


def plant_module(name: str, build: Callable[[], nn.Module], opens: str, *, layers: int = 1) -> None:
    def model() -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return ToyTransformer(
                Components(extra=lambda width: build(), max_length=12, layers=layers)
            )

    assert name not in HIDDEN
    HIDDEN[name] = model, opens


def half_zero() -> Tensor:
    return (torch.arange(WIDTH) >= WIDTH // 2).float()


def halves(first: Tensor, second: Tensor) -> Tensor:
    return torch.cat([first[..., : WIDTH // 2], second[..., WIDTH // 2 :]], dim=-1)


def scalar(value: float) -> Callable[[], Tensor]:
    return lambda: torch.tensor(value)


# Gates.
plant("partly zero gate", half_zero, lambda m, x: m.value * halves(future(x), past(x)))
plant(
    "gate with one zero",
    lambda: (torch.arange(WIDTH) != 5).float(),
    lambda m, x: m.value * torch.where(torch.arange(WIDTH) == 5, future(x), past(x)),
)
plant("zero gate named bias", scalar(0.0), lambda m, x: m.value * future(x), called="bias")
plant("relu of −1", scalar(-1.0), lambda m, x: m.value.relu() * future(x))
plant(
    "relu of a vector of −1",
    lambda: -torch.ones(WIDTH),
    lambda m, x: m.value.relu() * future(x),
)
plant("relu of the negative of 1", scalar(1.0), lambda m, x: (-m.value).relu() * future(x))
plant("clamped to 0 … 1", scalar(-0.5), lambda m, x: m.value.clamp(0, 1) * future(x))
plant("sigmoid of −200", scalar(-200.0), lambda m, x: m.value.sigmoid() * future(x))
plant("flat at zero", scalar(0.0), lambda m, x: (1 - (-m.value.square()).exp()) * future(x))
plant("blend of causal and not", scalar(0.0), lambda m, x: past(x).lerp(future(x), m.value))
plant(
    "blend of two paths",
    lambda: torch.tensor([1.0, 0.0]),
    lambda m, x: m.value[0] * past(x) + m.value[1] * future(x),
)
plant(
    "complex zero gate",
    lambda: torch.zeros(WIDTH, dtype=torch.complex64),
    lambda m, x: (m.value * future(x)).real,
)
plant("relu behind a threshold", scalar(0.0), lambda m, x: (m.value - 0.9).relu() * future(x))
plant(
    "sorted over time",
    lambda: torch.zeros(WIDTH),
    lambda m, x: m.value * x.sort(dim=1).values,
)
plant(
    "step of the future: no gradient",
    lambda: torch.zeros(WIDTH),
    lambda m, x: m.value * (future(x) > 0.3).float(),
)
plant(
    "training mode only, zero gate",
    scalar(0.0),
    lambda m, x: m.value * (future(x) if m.training else past(x)),
)
plant("gate in three layers", scalar(0.0), lambda m, x: m.value * future(x), layers=3)
plant(
    "one gate for each position",
    lambda: torch.zeros(12, 1),
    lambda m, x: m.value[: x.shape[1]] * future(x),
)
plant(
    "rounded to whole numbers",
    scalar(0.2),
    lambda m, x: m.value.round() * future(x),
)
plant(
    "a step of the gate",
    scalar(-0.3),
    lambda m, x: (m.value > 0).float() * future(x),
)
plant("exp of −200", scalar(-200.0), lambda m, x: m.value.exp() * future(x))
plant(
    "softmax over paths",
    lambda: torch.tensor([0.0, -200.0]),
    lambda m, x: torch.stack([past(x), future(x)], dim=-1) @ m.value.softmax(dim=0),
)
plant(
    "path of the largest gate",
    lambda: torch.tensor([1.0, 0.0]),
    lambda m, x: (past(x), future(x))[int(m.value.argmax())],
)
plant("square less one", scalar(1.0), lambda m, x: (m.value.square() - 1) * future(x))
plant(
    "determinant of equal rows",
    lambda: torch.ones(2, 2),
    lambda m, x: m.value.det() * future(x),
)

# The length of the row, which is the future's.
plant(
    "positions counted from the end, zero table",
    lambda: torch.zeros(12, WIDTH),
    lambda m, x: m.value[: x.shape[1]].flip(0).expand_as(x),
)
plant(
    "zero table of lengths",
    lambda: torch.zeros(13, WIDTH),
    lambda m, x: m.value[x.shape[1]].expand_as(x),
)

# Weights of attention and of projections.
plant(
    "zeroed output columns of one head",
    lambda: torch.randn(WIDTH, WIDTH) * half_zero(),
    lambda m, x: halves(future(x), past(x)) @ m.value.T,
)
plant(
    "zeroed input rows of a value projection",
    lambda: torch.randn(WIDTH, WIDTH) * half_zero()[:, None],
    lambda m, x: halves(future(x), past(x)) @ m.value,
)
plant(
    "one gate for each head",
    lambda: torch.tensor([1.0, 0.0])[:, None],
    lambda m, x: (m.value[..., None, None] * torch.stack([past(x), future(x)])).sum(0),
)
plant(
    "trained mask of zeros and ones",
    lambda: torch.ones(12, 12).tril(),
    lambda m, x: m.value[: x.shape[1], : x.shape[1]] @ x,
)
plant(
    "future tap of a convolution",
    lambda: torch.tensor([0.5, 0.7, 0.0]),
    lambda m, x: (
        m.value[0] * F.pad(x, (0, 0, 1, 0))[:, :-1]
        + m.value[1] * x
        + m.value[2] * F.pad(x, (0, 0, 0, 1))[:, 1:]
    ),
)


def by_fft(x: Tensor, taps: Tensor) -> Tensor:
    """A circular convolution over twice the length: the last taps are those of the future."""
    n = 2 * x.shape[1]
    taps = torch.cat([taps[: x.shape[1]], taps[-x.shape[1] :]])
    return torch.fft.irfft(torch.fft.rfft(x, n, dim=1) * torch.fft.rfft(taps, n, dim=0), n, dim=1)[
        :, : x.shape[1]
    ]


plant(
    "future half of a long filter",
    lambda: torch.cat([torch.randn(12, WIDTH), torch.zeros(12, WIDTH)]),
    lambda m, x: by_fft(x, m.value),
)

# What no gradient moves.
plant("schedule buffer at 0", scalar(0.0), lambda m, x: m.value * future(x), kind="buffer")
plant(
    "buffer of zeros for each channel",
    lambda: torch.zeros(WIDTH),
    lambda m, x: m.value * future(x),
    kind="buffer",
)
plant(
    "buffer below a threshold",
    scalar(0.0),
    lambda m, x: (m.value > 0).float() * future(x),
    kind="buffer",
)
plant(
    "counter past a warm-up",
    lambda: torch.zeros((), dtype=torch.long),
    lambda m, x: (m.value > 500) * future(x),
    kind="buffer",
)
plant(
    "counter of a short schedule",
    lambda: torch.zeros(1, dtype=torch.int32),
    lambda m, x: (m.value.clamp(0, 9) * (m.value < 10)) * future(x),
    kind="buffer",
)
plant(
    "switch that is off",
    lambda: torch.tensor(False),
    lambda m, x: m.value * future(x),
    kind="buffer",
)
plant("frozen zero gate", scalar(0.0), lambda m, x: m.value * future(x), kind="frozen")
plant("plain tensor of zero", scalar(0.0), lambda m, x: m.value * future(x), kind="attribute")


class TwoGates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Parameter(torch.zeros(())) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.first * self.second * future(x)


class OppositeSigns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(-torch.ones(()))
        self.second = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.first.relu() * (-self.second).relu() * future(x)


class Difference(nn.Module):
    """Two projections that start equal."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.target.load_state_dict(self.online.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.online(future(x)) - self.target(future(x))
        return y


class LowRank(nn.Module):
    """An adapter as LoRA initialises it."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(WIDTH, 2))
        self.up = nn.Parameter(torch.zeros(2, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return future(x) @ self.down @ self.up


class ZeroNorm(nn.Module):
    """A branch whose last norm starts at zero, as in residual networks."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        nn.init.zeros_(self.norm.weight)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(future(x))
        return y


class WeightNorm(nn.Module):
    """A direction times a magnitude of zero."""

    def __init__(self) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.magnitude = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return future(x) @ F.normalize(self.direction, dim=0) * self.magnitude


class BackwardHalf(nn.Module):
    """A network in both directions, of which the projection takes the forward one."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.join = nn.Linear(2 * WIDTH, WIDTH)
        with torch.no_grad():
            self.join.weight[:, WIDTH:] = 0

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.join(self.both(x)[0])
        return y


class DataGate(nn.Module):
    """A gate computed from the token, closed by its bias."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)
        nn.init.constant_(self.gate.bias, -50.0)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.gate(x)) * future(x)


plant_module("two zero gates", TwoGates, "extra.first")
plant_module("two gates of opposite signs", OppositeSigns, "extra.first")
plant_module("difference of equal projections", Difference, "extra.online.weight")
plant_module("low-rank adapter", LowRank, "extra.up")
plant_module("norm that starts at zero", ZeroNorm, "extra.norm.weight")
plant_module("weight norm of magnitude zero", WeightNorm, "extra.magnitude")
plant_module("gate closed by its bias", DataGate, "extra.gate.bias")
plant_module("backward half of a projection", BackwardHalf, "extra.join.weight")


class NextToken(ToyTransformer):
    """A second table, zero at first, of the next token: no gradient reaches it from the first."""

    def __init__(self) -> None:
        super().__init__(Components(max_length=12))
        self.ahead = nn.Embedding(VOCABULARY, VOCABULARY)
        nn.init.zeros_(self.ahead.weight)

    def forward(self, ids: Tensor, **options: object) -> Tensor:
        out: Tensor = super().forward(ids)
        y: Tensor = out + self.ahead(F.pad(ids[:, 1:], (0, 1)))
        return y


HIDDEN["zero table of the next token"] = NextToken, "ahead.weight"
