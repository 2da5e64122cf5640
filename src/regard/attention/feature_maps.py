"""Feature maps of linear attention: φ(q) · φ(k) ≥ 0 takes the place of e^(q · k / √d).

    elu      φ(x) = elu(x) + 1                                    Katharopoulos et al., 2020
    relu     φ(x) = max(x, 0)
    random   φ(x) = exp(w · x' − |x'|² / 2) / √m,  x' = x / d^¼   Choromanski et al., 2021

In the last one w ~ N(0, I), one for each of m features, so that the mean over draws of
φ(q) · φ(k) is e^(q · k / √d): softmax attention, approximated.
Shapes: b batch, h heads, i place, d head width, f features.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


def divided(parts: Tensor, total: Tensor) -> Tensor:
    """Where the total is 0, so is each part, and they stay so."""
    return parts / total.masked_fill(total == 0, 1.0)


class FeatureMap(nn.Module, ABC):
    """(b,h,i,d) -> (b,h,i,f), each place on its own; queries and keys alike unless overridden."""

    def of_queries(self, q: Tensor) -> Tensor:
        """May scale each query's features by a number of its own: the normaliser takes it out."""
        return self.of_keys(q)

    @abstractmethod
    def of_keys(self, k: Tensor) -> Tensor: ...


class EluPlusOne(FeatureMap):
    def of_keys(self, k: Tensor) -> Tensor:
        # elu(x) + 1 as it is written loses its digits below −10 and is 0 below −17 in float32.
        return k.relu() + k.clamp(max=0).exp()


class Relu(FeatureMap):
    """A query and a key that share no positive feature do not see each other at all."""

    def of_queries(self, q: Tensor) -> Tensor:
        # As shares of their sum: what is just above 0 would divide its own rounding otherwise, once
        # weights are divided by their sum, and more so in the gradient.
        features = q.relu()
        return divided(features, features.sum(dim=-1, keepdim=True))

    def of_keys(self, k: Tensor) -> Tensor:
        return k.relu()


class RandomFeatures(FeatureMap):
    directions: Tensor

    def __init__(self, width: int, features: int, *, generator: torch.Generator) -> None:
        super().__init__()
        # They follow from the settings, so a checkpoint need not hold them.
        drawn = orthogonal_by_blocks(width, features, generator=generator)
        self.register_buffer("directions", drawn.to(torch.get_default_dtype()), persistent=False)

    def of_queries(self, q: Tensor) -> Tensor:
        exponents = self._exponents(q)
        return (exponents - exponents.detach().amax(dim=-1, keepdim=True)).exp() / self._root

    def of_keys(self, k: Tensor) -> Tensor:
        # A maximum over keys would cancel too, but only up to rounding: it would tell of the
        # future. A key's exponent is at most |w|² / 2, too much for wide heads: half of what the
        # number format holds is kept free for the sums.
        bound = math.log(torch.finfo(k.dtype).max) / 2
        return self._exponents(k).clamp(max=bound).exp() / self._root

    @property
    def _root(self) -> float:
        return math.sqrt(self.directions.shape[0])

    def _exponents(self, x: Tensor) -> Tensor:
        x = x / x.shape[-1] ** 0.25
        return x @ self.directions.T - x.square().sum(dim=-1, keepdim=True) / 2


def orthogonal_by_blocks(width: int, features: int, *, generator: torch.Generator) -> Tensor:
    """(f,d) of N(0, I) rows, every `width` of them at right angles: less variance than if free."""
    rows = []
    for _ in range(-(-features // width)):
        square = torch.randn(width, width, generator=generator, dtype=torch.float64)
        turned, triangle = torch.linalg.qr(square)
        # Without the signs the QR decomposition prefers some directions.
        turned = turned * triangle.diagonal().sign()
        lengths = torch.randn(width, width, generator=generator, dtype=torch.float64).norm(dim=1)
        rows.append(lengths[:, None] * turned.T)
    return torch.cat(rows)[:features]
