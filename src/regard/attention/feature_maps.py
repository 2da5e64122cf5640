"""Feature maps of linear attention: φ(q) · φ(k) ≥ 0 replaces e^(q · k / √d).

    elu      φ(x) = elu(x) + 1                                    Katharopoulos et al., 2020
    relu     φ(x) = max(x, 0)
    random   φ(x) = exp(w · x' − |x'|² / 2) / √m,  x' = x / d^¼   Choromanski et al., 2021

Random features have w ~ N(0, I), one for each of m features, so that the mean of φ(q) · φ(k) over
draws is e^(q · k / √d): an approximation of softmax attention.
Shapes: b batch, h heads, i position, d head width, f features.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


def divide_or_zero(x: Tensor, total: Tensor) -> Tensor:
    """x / total, and 0 where the total of nonnegative x is 0."""
    return x / total.masked_fill(total == 0, 1.0)


class FeatureMap(nn.Module, ABC):
    """(b,h,i,d) -> (b,h,i,f), position by position; the same for queries and keys by default."""

    def map_queries(self, q: Tensor) -> Tensor:
        """May scale each query's features by any factor: the normaliser cancels it."""
        return self.map_keys(q)

    @abstractmethod
    def map_keys(self, k: Tensor) -> Tensor: ...


class EluPlusOne(FeatureMap):
    def map_keys(self, k: Tensor) -> Tensor:
        # elu(x) + 1 taken literally loses its digits below −10 and is 0 below −17 in float32.
        return k.relu() + k.clamp(max=0).exp()


class Relu(FeatureMap):
    """A query and a key without a common positive feature have the score 0."""

    def map_queries(self, q: Tensor) -> Tensor:
        # Normalised to sum 1: otherwise features just above 0 amplify rounding errors when weights
        # are divided by their sum, and more so in the gradient.
        features = q.relu()
        return divide_or_zero(features, features.sum(dim=-1, keepdim=True))

    def map_keys(self, k: Tensor) -> Tensor:
        return k.relu()


class RandomFeatures(FeatureMap):
    directions: Tensor

    def __init__(self, width: int, features: int, *, generator: torch.Generator) -> None:
        super().__init__()
        # They follow from the settings, so they are not saved.
        if torch.get_default_device().type == "meta":  # only counted: drawing them takes long
            directions = torch.empty(features, width)
        else:
            directions = draw_orthogonal_directions(width, features, generator=generator)
        dtype = torch.get_default_dtype()
        self.register_buffer("directions", directions.to(dtype), persistent=False)

    def map_queries(self, q: Tensor) -> Tensor:
        exponents = self._exponents(q)
        return (exponents - exponents.detach().amax(dim=-1, keepdim=True)).exp() / self._root

    def map_keys(self, k: Tensor) -> Tensor:
        # Subtracting a maximum over keys would cancel too, but only up to rounding: it would leak
        # the future. A key's exponent is at most |w|² / 2, too much for wide heads: half of the
        # dtype's exponent range is left to the sums.
        bound = math.log(torch.finfo(k.dtype).max) / 2
        return self._exponents(k).clamp(max=bound).exp() / self._root

    @property
    def _root(self) -> float:
        return math.sqrt(self.directions.shape[0])

    def _exponents(self, x: Tensor) -> Tensor:
        x = x / x.shape[-1] ** 0.25
        return x @ self.directions.T - x.square().sum(dim=-1, keepdim=True) / 2


def draw_orthogonal_directions(width: int, features: int, *, generator: torch.Generator) -> Tensor:
    """(f,d) rows of N(0, I), orthogonal in blocks of `width`: less variance than independent
    draws."""
    rows = []
    for _ in range(-(-features // width)):
        square = torch.randn(width, width, generator=generator, dtype=torch.float64)
        orthogonal, triangular = torch.linalg.qr(square)
        # Without these signs the QR decomposition prefers some directions.
        orthogonal = orthogonal * triangular.diagonal().sign()
        norms = torch.randn(width, width, generator=generator, dtype=torch.float64).norm(dim=1)
        rows.append(norms[:, None] * orthogonal.T)
    return torch.cat(rows)[:features]
