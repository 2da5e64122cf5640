"""Models whose forward takes attention_mask, token_type_ids and position_ids; some leak by them."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

Allowed = Callable[[Tensor, Tensor | None, Tensor | None, Tensor | None], Tensor]
"(ids, attention_mask, token_type_ids, position_ids) -> (b,t,t), True = may attend"

LEAKING: dict[str, tuple[Callable[[], nn.Module], str]] = {}
"Name -> (model, the mode that shows it first)."
CLEAN: dict[str, Callable[[], nn.Module]] = {}


def causal(ids: Tensor) -> Tensor:
    t = ids.shape[1]
    return torch.ones(t, t).tril().bool().expand(len(ids), t, t)


class Model(nn.Module):
    """One layer of attention over what `allowed` returns."""

    def __init__(self, allowed: Allowed) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.tokens, self.types = nn.Embedding(11, 8), nn.Embedding(2, 8)
            self.places, self.qk = nn.Embedding(64, 8), nn.Linear(8, 16)
        self.allowed = allowed

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        return self.run(ids, attention_mask, token_type_ids, position_ids)

    def run(
        self, ids: Tensor, mask: Tensor | None, types: Tensor | None, positions: Tensor | None
    ) -> Tensor:
        at = torch.arange(ids.shape[1]).expand(ids.shape) if positions is None else positions
        x = self.tokens(ids) + self.places(at)
        x = x + self.types(torch.zeros_like(ids) if types is None else types)
        q, k = self.qk(x).chunk(2, dim=-1)
        allowed = self.allowed(ids, mask, types, positions)
        if mask is not None and mask.dim() == 2:
            allowed = allowed & mask.bool()[:, None, :]
        scores = (q @ k.transpose(1, 2)).masked_fill(~allowed, -math.inf)
        y: Tensor = x + scores.softmax(dim=-1).nan_to_num(0.0) @ x
        return y


class MaskRequired(Model):
    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(ids, attention_mask, None, None)


class BooleanMaskRequired(Model):
    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]
        if attention_mask.dtype != torch.bool:
            raise TypeError("attention_mask must be boolean")
        return self.run(ids, attention_mask, None, None)


class AllRequired(Model):
    def forward(  # type: ignore[override]
        self, ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, position_ids: Tensor
    ) -> Tensor:
        return self.run(ids, attention_mask, token_type_ids, position_ids)


class SquareMask(Model):
    """Takes a mask of queries and keys only."""

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        if attention_mask is not None and attention_mask.dim() != 3:
            raise ValueError("attention_mask must be (b,t,t)")
        return self.run(ids, attention_mask, None, None)


class FromTheEnd(Model):
    """Positions are counted from the end of the row, as far as the padding mask tells it."""

    def run(
        self, ids: Tensor, mask: Tensor | None, types: Tensor | None, positions: Tensor | None
    ) -> Tensor:
        y = super().run(ids, mask, types, positions)
        return y if mask is None else y + self.places(mask.long().flip(1).cumsum(1).flip(1))


class ScaledWherePadded(Model):
    """Divided by the number of tokens, in a batch with padding."""

    def run(
        self, ids: Tensor, mask: Tensor | None, types: Tensor | None, positions: Tensor | None
    ) -> Tensor:
        y = super().run(ids, mask, types, positions)
        is_padded = mask is not None and not bool(mask.all())
        return y / mask.sum(dim=1)[:, None, None] if mask is not None and is_padded else y


class RelativeToTheLast(Model):
    """Position ids as a fraction of the last one."""

    def run(
        self, ids: Tensor, mask: Tensor | None, types: Tensor | None, positions: Tensor | None
    ) -> Tensor:
        y = super().run(ids, mask, types, positions)
        if positions is None:
            return y
        return y + (positions / positions.amax(dim=1, keepdim=True).clamp(min=1))[..., None]


def leak(name: str, allowed: Allowed, mode: str, model: type[Model] = Model) -> None:
    LEAKING[name] = (lambda: model(allowed)), mode


def everything(ids: Tensor) -> Tensor:
    return torch.ones_like(causal(ids))


def next_too(ids: Tensor) -> Tensor:
    t = ids.shape[1]
    return torch.ones(t, t).tril(1).bool().expand(len(ids), t, t)


def same(values: Tensor) -> Tensor:
    return values[:, :, None] == values[:, None, :]


def by_positions(ids: Tensor, positions: Tensor) -> Tensor:
    """Keys up to the position id of the query, which is right only where ids count from 0."""
    return torch.arange(ids.shape[1])[None, None] <= positions[:, :, None]


leak(
    "a mask of ones replaces the causal one",
    lambda ids, mask, types, at: (
        causal(ids) if mask is None or not bool(mask.all()) else everything(ids)
    ),
    "with a mask of ones",
)
leak(
    "any mask replaces the causal one",
    lambda ids, mask, types, at: causal(ids) if mask is None else everything(ids),
    "with padding on the right",
)
leak(
    "off by one on the left",
    lambda ids, mask, types, at: (
        causal(ids) if mask is None or bool(mask[:, 0].all()) else next_too(ids)
    ),
    "with padding on the left",
)
leak(
    "off by one on the right",
    lambda ids, mask, types, at: (
        causal(ids) if mask is None or bool(mask[:, -1].all()) else next_too(ids)
    ),
    "with padding on the right",
)
leak(
    "segments see all of themselves",
    lambda ids, mask, types, at: causal(ids) if types is None else causal(ids) | same(types),
    "with two token types",
)
leak(
    "the second segment sees ahead",
    lambda ids, mask, types, at: (
        causal(ids) if types is None else causal(ids) | next_too(ids) & (types == 1)[:, :, None]
    ),
    "with two token types",
)
leak(
    "mask from position ids",
    lambda ids, mask, types, at: causal(ids) if at is None else by_positions(ids, at),
    "with shifted position ids",
)
leak(
    "equal position ids see each other",
    lambda ids, mask, types, at: (
        causal(ids) if at is None or mask is None else causal(ids) | next_too(ids)
    ),
    "with padding on the left and position ids",
)
leak(
    "position ids replace the mask",
    lambda ids, mask, types, at: causal(ids) if at is None else everything(ids),
    "with position ids",
)
leak("required mask", lambda ids, *rest: next_too(ids), "evaluation mode", MaskRequired)
leak("required boolean mask", lambda ids, *_: next_too(ids), "evaluation mode", BooleanMaskRequired)
leak("three required", lambda ids, *rest: next_too(ids), "evaluation mode", AllRequired)
for name, mode, told in (
    ("positions from the end of the mask", "with padding on the right", FromTheEnd),
    ("a scale by the number of tokens", "with padding on the right", ScaledWherePadded),
    ("position ids over the last one", "with position ids", RelativeToTheLast),
):
    leak(name, lambda ids, *rest: causal(ids), mode, told)

for kind in (Model, MaskRequired, BooleanMaskRequired, AllRequired, SquareMask):
    CLEAN[kind.__name__] = lambda kind=kind: kind(lambda ids, *rest: causal(ids))
