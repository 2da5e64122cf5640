"""Normalisation layers: LayerNorm and RMSNorm."""

from __future__ import annotations

from typing import Literal

from torch import nn

NormKind = Literal["layer", "rms"]


def build_norm(kind: NormKind, width: int, *, biases: bool, eps: float = 1e-5) -> nn.Module:
    """LayerNorm subtracts the mean and rescales (Ba et al., 2016); RMSNorm only rescales."""
    if kind == "rms":
        return nn.RMSNorm(width, eps=eps)
    return nn.LayerNorm(width, eps=eps, bias=biases)
