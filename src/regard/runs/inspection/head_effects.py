"""What each attention head does for a text: the loss without it, minus the loss with all heads.

Heads stand in for each other, so effects do not add up: a head that changes nothing alone may still
matter where another is off too (Michel et al., 2019).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from regard.models.blocks.head_ablation import Head, ablate_heads, attention_layers
from regard.models.model import Model
from regard.runs.inspection.continuation import DecodedRow, row_losses


@dataclass(frozen=True)
class HeadEffects:
    """Mean loss of a text in nats a token, and without each head."""

    loss: float
    "With the heads that are on."
    n: int
    "Tokens."
    without: dict[str, tuple[float, ...]]
    "By attention layer: the loss where this head is off too."


def mean_row_loss(model: Model, row: DecodedRow) -> tuple[float, int]:
    """Mean loss in nats over the tokens that have one, and how many these are."""
    losses = row_losses(model, row)
    losses = losses[losses.isfinite()]
    return (float(losses.mean()) if len(losses) else float("nan")), len(losses)


def head_effects(model: Model, row: DecodedRow, *, off: Collection[Head] = ()) -> HeadEffects:
    """Every head switched off in turn, beside those that are off already."""
    with ablate_heads(model, off):
        loss, n = mean_row_loss(model, row)
    without: dict[str, tuple[float, ...]] = {}
    for layer, heads in attention_layers(model).items():
        losses = []
        for index in range(heads):
            with ablate_heads(model, {*off, Head(layer, index)}):
                losses.append(mean_row_loss(model, row)[0])
        without[layer] = tuple(losses)
    return HeadEffects(loss, n, without)
