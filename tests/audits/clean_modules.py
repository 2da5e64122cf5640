"""Clean models that an audit could take for leaking ones once it replaces their values."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from tests.audits.planted_hidden_leaks import WIDTH, Branch, past
from tests.audits.planted_leaks import NoisyExperts
from tests.audits.toy_models import Components, MaskContext, ToyTransformer, causal
from torch import Tensor, nn

CLEAN: dict[str, Callable[[], nn.Module]] = {}

LENGTH = 12


def clean(name: str, components: Callable[[], Components]) -> None:
    def model() -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return ToyTransformer(components())

    assert name not in CLEAN
    CLEAN[name] = model


def clean_extra(name: str, build: Callable[[], nn.Module], *, layers: int = 1) -> None:
    clean(
        name,
        lambda: Components(extra=lambda width: build(), max_length=LENGTH, layers=layers),
    )


def clean_branch(
    name: str,
    value: Callable[[], Tensor],
    mix: Callable[[Branch, Tensor], Tensor],
    *,
    kind: str = "parameter",
) -> None:
    clean_extra(name, lambda: Branch(value(), mix, kind=kind))


def lower(m: Branch, x: Tensor) -> Tensor:
    return m.value[: x.shape[1], : x.shape[1]]


def attend(x: Tensor, scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1) @ x


def causal_scores(x: Tensor) -> Tensor:
    t = x.shape[1]
    return (x @ x.transpose(1, 2) / 4).masked_fill(torch.ones(t, t).triu(1).bool(), -math.inf)


# Masks, tables and indices that must be left alone.
clean_branch(
    "mask buffer of zeros and ones",
    lambda: torch.ones(LENGTH, LENGTH).tril(),
    lambda m, x: lower(m, x) @ x,
    kind="buffer",
)
clean_branch(
    "mask buffer of 0 and −inf",
    lambda: torch.full((LENGTH, LENGTH), -math.inf).triu(1),
    lambda m, x: attend(x, x @ x.transpose(1, 2) + lower(m, x)),
    kind="buffer",
)
clean_branch(
    "boolean mask buffer",
    lambda: torch.ones(LENGTH, LENGTH).tril().bool(),
    lambda m, x: attend(x, (x @ x.transpose(1, 2)).masked_fill(~lower(m, x).bool(), -math.inf)),
    kind="buffer",
)
clean_branch(
    "mask kept as a frozen parameter",
    lambda: torch.ones(LENGTH, LENGTH).tril(),
    lambda m, x: lower(m, x) @ x,
    kind="frozen",
)
clean_branch(
    "mask kept as a plain attribute",
    lambda: torch.ones(LENGTH, LENGTH).tril(),
    lambda m, x: lower(m, x) @ x,
    kind="attribute",
)
clean_branch(
    "trained mask value of −1e9",
    lambda: torch.tensor(-1e9),
    lambda m, x: attend(x, torch.where(causal_scores(x).isinf(), m.value, causal_scores(x))),
)
clean_branch(
    "trained bias with −inf",
    lambda: torch.full((LENGTH, LENGTH), -math.inf).triu(1),
    lambda m, x: attend(x, x @ x.transpose(1, 2) + lower(m, x)),
)
clean_branch(
    "rotary frequencies in a buffer",
    lambda: 10_000 ** (-torch.arange(WIDTH) / WIDTH),
    lambda m, x: attend(x * (torch.arange(x.shape[1])[:, None] * m.value).cos(), causal_scores(x)),
    kind="buffer",
)
clean_branch(
    "index of the current and the previous position",
    lambda: torch.arange(LENGTH).sub(1).clamp(min=0),
    lambda m, x: x[:, m.value[: x.shape[1]]],
    kind="buffer",
)

# Zeros with nothing forbidden behind them.
clean_branch("zero gate of the past", lambda: torch.zeros(()), lambda m, x: m.value * past(x))
clean_branch(
    "relu gate of the past", lambda: -torch.ones(()), lambda m, x: m.value.relu() * past(x)
)
clean_branch("layer scale of zeros", lambda: torch.zeros(WIDTH), lambda m, x: m.value * x)
clean_branch(
    "schedule buffer over the past",
    lambda: torch.zeros(()),
    lambda m, x: m.value * past(x),
    kind="buffer",
)
clean_branch(
    "zero bias buffer under a mask",
    lambda: torch.zeros(LENGTH, LENGTH),
    lambda m, x: attend(x, causal_scores(x) + lower(m, x)),
    kind="buffer",
)
clean_branch(
    "relative bias of zeros",
    lambda: torch.zeros(LENGTH, LENGTH),
    lambda m, x: attend(x, causal_scores(x) + lower(m, x)),
)
clean_branch(
    "attention sink of zero",
    lambda: torch.zeros(()),
    lambda m, x: (
        torch.cat([causal_scores(x), m.value.expand(*x.shape[:2], 1)], -1).softmax(-1)[..., :-1] @ x
    ),
)
clean_branch(
    "step counter",
    lambda: torch.zeros(()),
    lambda m, x: past(x) * (1 + 0 * m.value),
    kind="buffer",
)
clean_branch(
    "decay rates",
    lambda: torch.linspace(-3, 3, WIDTH),
    lambda m, x: torch.stack(
        [
            sum(x[:, j] * m.value.sigmoid() ** (i - j) for j in range(i + 1))  # type: ignore[misc]
            for i in range(x.shape[1])
        ],
        dim=1,
    ),
)


class BuiltWhenUsed(nn.Module):
    """A mask buffer of zeros that the first pass fills."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.zeros(LENGTH, LENGTH))

    def forward(self, x: Tensor) -> Tensor:
        if not bool(self.mask.any()):
            self.mask.copy_(torch.ones(LENGTH, LENGTH).tril())
        return self.mask[: x.shape[1], : x.shape[1]] @ x


class HeldConv(nn.Module):
    """A convolution whose future tap a gradient hook keeps at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.tensor([0.5, 0.7, 0.0]))
        self.taps.register_hook(lambda gradient: gradient * torch.tensor([1.0, 1.0, 0.0]))

    def forward(self, x: Tensor) -> Tensor:
        before, after = F.pad(x, (0, 0, 1, 0))[:, :-1], F.pad(x, (0, 0, 0, 1))[:, 1:]
        return self.taps[0] * before + self.taps[1] * x + self.taps[2] * after


class MaskedWeight(nn.Module):
    """Weights over positions that each pass multiplies with their mask, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(LENGTH, LENGTH).tril())
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH).tril())

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.weight.mul_(self.mask)
        return self.weight[: x.shape[1], : x.shape[1]] @ x


class LearnedSpan(nn.Module):
    """Adaptive span: a learned soft limit to how far back is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.span = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        t = x.shape[1]
        distance = torch.arange(t)[:, None] - torch.arange(t)
        ramp = (1 - (distance - 8 * self.span.sigmoid()) / 3).clamp(0, 1)
        return attend(x, causal_scores(x) + ramp.clamp(min=1e-9).log())


class PaddingRow(nn.Module):
    """A zero embedding for padding."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, WIDTH, padding_idx=0)

    def forward(self, x: Tensor) -> Tensor:
        rows: Tensor = self.table((x[..., 0] > 0).long())
        return past(rows * x)


class HalfPrecisionNorm(nn.Module):
    """A running norm of the past, in bfloat16."""

    def forward(self, x: Tensor) -> Tensor:
        return (past(x.square()).bfloat16().float() + 1).rsqrt() * x


for name, build in {
    "mask built when first used": BuiltWhenUsed,
    "future tap held by a gradient hook": HeldConv,
    "weights masked in place": MaskedWeight,
    "adaptive span": LearnedSpan,
    "zero row for padding": PaddingRow,
    "running norm in bfloat16": HalfPrecisionNorm,
}.items():
    clean_extra(name, build)


class ReZero(nn.Module):
    """Residual branches behind zero gates."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Parameter(torch.zeros(3))
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for gate, layer in zip(self.gates, self.layers, strict=True):
            x = x + gate * past(F.gelu(layer(x)))
        return x


class SparseExperts(nn.Module):
    """Each token goes to the expert of its largest score."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 3)
        self.experts = nn.Parameter(torch.randn(3, WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.router(x).argmax(dim=-1)
        return torch.einsum("btw,btwv->btv", x, self.experts[chosen])


clean_extra("gates that start at zero", ReZero)
clean_extra("experts chosen by each token", SparseExperts)
clean_extra("experts with dropout", lambda: NoisyExperts(WIDTH))
clean_extra("two experts layers with dropout", lambda: NoisyExperts(WIDTH), layers=2)


class DeltaRule(nn.Module):
    """A memory that forgets what it writes over."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.value, self.query = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        memory, out = x.new_zeros(len(x), WIDTH, WIDTH), []
        for token in x.unbind(dim=1):
            key = F.normalize(self.key(token), dim=-1)[:, None]
            memory = memory + key.transpose(1, 2) @ (self.value(token)[:, None] - key @ memory)
            out.append(self.query(token)[:, None] @ memory)
        return torch.cat(out, dim=1)


class DoublingScan(nn.Module):
    """A gated sum over the past, in as many steps as the length has binary digits."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        gate, step = self.gate(x).sigmoid(), 1
        while step < x.shape[1]:
            x = x + gate * F.pad(x, (0, 0, step, -step))
            gate, step = gate * F.pad(gate, (0, 0, step, -step)), 2 * step
        return x


class CompletedBlocks(nn.Module):
    """Attends to means of blocks of four that have ended."""

    def forward(self, x: Tensor) -> Tensor:
        t, blocks = x.shape[1], x.shape[1] // 4
        means = x[:, : 4 * blocks].unflatten(1, (blocks, 4)).mean(dim=2)
        ended = 4 * torch.arange(1, blocks + 1) <= torch.arange(t)[:, None]
        scores = (x @ means.transpose(1, 2)).masked_fill(~ended, -math.inf)
        return scores.softmax(dim=-1).nan_to_num(0.0) @ means if blocks else 0 * x


class CopyAfterMatch(nn.Module):
    """Adds what followed earlier positions of the same kind."""

    def forward(self, x: Tensor) -> Tensor:
        kind = (x[..., :2] > 0).long() @ torch.tensor([1, 2])
        same = (kind[:, :, None] == kind[:, None, :]).to(x).tril(-1)
        return same @ x.roll(-1, dims=1)


clean_extra("delta rule", DeltaRule)
clean_extra("scan by doubling", DoublingScan)
clean_extra("blocks that have ended", CompletedBlocks)
clean_extra("copy after a match", CopyAfterMatch)
clean_branch(
    "stick breaking",
    lambda: torch.zeros(()),
    lambda m, x: F.logsigmoid(causal_scores(x) + m.value).exp().cumprod(dim=-1) @ x,
)
clean_branch(
    "forget gates as differences of sums",
    lambda: torch.zeros(WIDTH),
    lambda m, x: attend(
        x,
        causal_scores(x)
        + (c := F.logsigmoid(x @ m.value).cumsum(dim=1))[:, :, None]
        - c[:, None, :],
    ),
)
clean_branch(
    "counter of tokens seen",
    lambda: torch.zeros((), dtype=torch.long),
    lambda m, x: past(x) / (1 + m.value),
    kind="buffer",
)


def document_mask(context: MaskContext) -> Tensor:
    return causal(context) & (context.i // 4 == context.j // 4)


clean("documents of four positions", lambda: Components(mask=document_mask, max_length=LENGTH))
clean(
    "large weights in three layers",
    lambda: Components(layers=3, scale=20.0, max_length=LENGTH, dropout=0.2),
)
