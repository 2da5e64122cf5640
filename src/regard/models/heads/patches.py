"""Patches: an image cut into small squares, each a vector of numbers and then one of the model.

    x_n = W · patch_n + b               Dosovitskiy et al., 2021, "An image is worth 16×16 words"

    1 2 3 4
    5 6 7 8   cut by 2  →  [1 2 5 6] [3 4 7 8] …        row by row of patches, row by row in each

Shapes: s side of the image, p patches, k numbers in a patch, w width of a token vector.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.count import Term, linear
from regard.nn.linear import Linear

Numbers = NDArray[np.float32]


class PatchEmbedding(nn.Module):
    """Patches as vectors, as wide as those of words; where each stands is added with the words'."""

    def __init__(self, patch_values: int, *, width: int) -> None:
        super().__init__()
        self.values = Linear(patch_values, width)
        # Pixels are below 1, and as a rule many are 0: drawn as other weights are, patches would
        # be drowned by what tells their places.
        self.values.init_std = patch_values**-0.5

    def forward(self, patches: Tensor) -> Tensor:
        """(…,k) -> (…,w)"""
        y: Tensor = self.values(patches.to(self.values.weight.dtype))
        return y


def cut(image: Numbers, *, side: int) -> Numbers:
    """(s,s) -> (p,k): squares of `side` × `side`, which has to divide the image's side."""
    across = len(image) // side
    squares = image.reshape(across, side, across, side).swapaxes(1, 2)
    return squares.reshape(across * across, side * side)


def joined(patches: Numbers) -> Numbers:
    """(p,k) -> (s,s): the image again."""
    across, side = (round(count**0.5) for count in patches.shape)
    squares = patches.reshape(across, across, side, side).swapaxes(1, 2)
    return squares.reshape(across * side, across * side)


def patch_term(patch_values: int, width: int) -> Term:
    """How many parameters the embedding has."""
    return linear("patch embedding", patch_values, width, biases=True, letters="k·w")
