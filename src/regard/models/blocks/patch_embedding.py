"""Patch embedding: an image cut into square patches, each a vector of pixels, then an embedding.

    x_n = W · patch_n + b               Dosovitskiy et al., 2021, "An image is worth 16×16 words"

    1 2 3 4
    5 6 7 8   cut by 2  →  [1 2 5 6] [3 4 7 8] …        row by row of patches, row by row in each

Shapes: s side of the image, p patches, k values in a patch, w width of a token embedding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.ledger import ParameterCount, linear_parameters
from regard.nn.linear import Linear

PatchArray = NDArray[np.float32]


class PatchEmbedding(nn.Module):
    """Patches as embeddings of token width; position embeddings are added as for tokens."""

    def __init__(self, patch_dim: int, *, width: int) -> None:
        super().__init__()
        self.values = Linear(patch_dim, width)
        # Pixels are below 1 and many are 0: with the std of other weights, patch embeddings would
        # be negligible beside the position embeddings.
        self.values.init_std = patch_dim**-0.5

    def forward(self, patches: Tensor) -> Tensor:
        """(…,k) -> (…,w)"""
        y: Tensor = self.values(patches.to(self.values.weight.dtype))
        return y


def patchify(image: PatchArray, *, side: int) -> PatchArray:
    """(s,s) -> (p,k): patches of `side` × `side`, which has to divide the image's side."""
    across = len(image) // side
    squares = image.reshape(across, side, across, side).swapaxes(1, 2)
    return squares.reshape(across * across, side * side)


def patch_embedding_parameters(patch_dim: int, width: int) -> ParameterCount:
    return linear_parameters("patch embedding", patch_dim, width, biases=True, letters="k·w")
